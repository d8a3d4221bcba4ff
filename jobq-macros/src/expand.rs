//! The tokens that stand in the function's place: the payload, the function, and its entry in the registry.
//!
//! Expanded code names nothing but what the user wrote and `jobq::private`. `expand/golden/` holds expansions to read.

mod limit;
mod pattern;
mod unique;

use self::{limit::bounds_tokens, pattern::pattern_tokens, unique::rule_tokens};
use crate::{
    Mistakes,
    args::{Backoff, CatchUp, Cron, On, Options, Timeout, check_name, duration_tokens},
    item::{Container, Field, Item, Kind, Param, doc_text},
};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Attribute, LitStr, Path, ext::IdentExt, spanned::Spanned};

/// All that is written for one job.
///
/// `None`: there is no name for the payload.
pub(crate) fn expand(options: &Options, item: &Item, mistakes: &mut Mistakes) -> Option<TokenStream> {
    let expansion = Expansion::of(options, item, mistakes)?;
    let parts =
        [expansion.payload(), expansion.job(), expansion.function(), expansion.call(), expansion.entry()];
    Some(parts.into_iter().collect())
}

struct Expansion<'a> {
    options: &'a Options,
    item: &'a Item,
    /// `::jobq::private`
    private: TokenStream,
    payload: Ident,
    job_type: LitStr,
    label: Option<TokenStream>,
    unique_key: Option<TokenStream>,
    concurrency_key: Option<TokenStream>,
    /// `allow(deprecated)`, where the payload is: all of its job name it.
    allow: Option<TokenStream>,
    /// What goes on the items that the user did not write: `cfg`, lint levels.
    beside: TokenStream,
}

impl<'a> Expansion<'a> {
    fn of(options: &'a Options, item: &'a Item, mistakes: &mut Mistakes) -> Option<Self> {
        let jobq = &options.jobq;
        let private = quote!(#jobq::private);
        let payload = options.payload.clone().or_else(|| payload_name(&item.name, mistakes))?;
        let job_type = job_type(options, &item.name, mistakes);
        check_aliases(&options.aliases, &job_type, mistakes);
        check_container(options, item, mistakes);
        check_whole_key(options, item, mistakes);
        check_on_dead(options.on_dead.as_ref(), &item.name, mistakes);
        let mut pattern = |text, what| pattern_tokens(text, what, item, &private, mistakes);
        let label = options.label.as_ref().and_then(|label| pattern(label, "label"));
        let unique_key = options.unique.as_ref().and_then(|unique| unique.key.as_ref());
        let unique_key = unique_key.and_then(|key| pattern(key, "key"));
        let concurrency_key = options.limits.key.as_ref().and_then(|key| pattern(key, "key"));
        check_cron(&options.cron, item, &payload, mistakes);
        let (cfg, lint) = (&item.attrs.cfg, on_every_item(&item.attrs.lint));
        let allow = (!item.attrs.deprecated.is_empty()).then(|| quote!(#[allow(deprecated)]));
        let beside = quote!(#(#cfg)* #(#lint)* #allow);
        Some(Self {
            options,
            item,
            private,
            payload,
            job_type,
            label,
            unique_key,
            concurrency_key,
            allow,
            beside,
        })
    }

    /// The struct, and its Debug by way of Serialize, so that users' types need nothing but serde.
    fn payload(&self) -> TokenStream {
        let Self { item, private, payload, beside, .. } = self;
        let (cfg, deprecated, vis) = (&item.attrs.cfg, &item.attrs.deprecated, &item.vis);
        let lint = on_every_item(&item.attrs.lint);
        let doc = docs_or(&item.attrs.doc, || format!("What a job `{}` is enqueued with.", item.name));
        let container = self.options.serde.as_ref().map(|serde| quote!(#[serde(#serde)]));
        let serde = format!("{}::serde", path(private));
        let fields = item.payload().map(|param| {
            let Param { name, ty, serde, doc, .. } = param;
            let doc = docs_or(doc, || format!("The parameter `{name}`."));
            let secret = param.serde_of_secret(&format!("{}::secret", path(private)));
            quote!(#doc #(#serde)* #secret #vis #name: #ty)
        });
        let name = payload.unraw().to_string();
        let checks = item.payload().filter(|param| param.serde.is_empty()).map(|Param { ty, .. }| {
            let here = at(private, ty.span());
            quote_spanned!(ty.span()=> #here::stores::<#ty>();)
        });
        let place = Span::call_site().located_at(payload.span());
        let declaration = quote_spanned!(place=> #vis struct #payload { #(#fields),* });
        quote! {
            // First, for serde tells of a type that it can't store four times, and not at the type.
            #beside
            const _: fn() = || { #(#checks)* };

            #(#cfg)* #doc #(#deprecated)* #(#lint)*
            #[derive(#private::Serialize, #private::Deserialize)]
            #[serde(crate = #serde)]
            #container
            #declaration

            #beside
            impl #private::Debug for #payload {
                fn fmt(&self, f: &mut #private::Formatter<'_>) -> #private::fmt::Result {
                    #private::debug(self, #name, f)
                }
            }
        }
    }

    fn job(&self) -> TokenStream {
        let Self { item, private, payload, job_type, beside, .. } = self;
        let (names, types): (Vec<_>, Vec<_>) = item.payload().map(|param| (&param.name, &param.ty)).unzip();
        let (args, pattern) = match (&types[..], &names[..]) {
            ([ty], [name]) => (quote!(#ty), quote!(#name)),
            _ => (quote!((#(#types),*)), quote!((#(#names),*))),
        };
        let output = match item.wrong_output {
            true => quote!(()),
            false => item.output.to_token_stream(),
        };
        let defaults = self.defaults();
        let secrets = self.secrets();
        let secrets =
            (!secrets.is_empty()).then(|| quote!(const SECRETS: &'static [&'static str] = &[#(#secrets),*];));
        let label = self.label.as_ref().map(|label| {
            quote! {
                fn label(&self) -> #private::Option<#private::String> {
                    #private::Some(#label)
                }
            }
        });
        let unique_key = self.unique_key.as_ref().map(|key| {
            quote! {
                fn unique_key(&self) -> #private::Option<#private::String> {
                    #private::Some(#key)
                }
            }
        });
        let concurrency_key = self.concurrency_key.as_ref().map(|key| {
            quote! {
                fn concurrency_key(&self) -> #private::Option<#private::String> {
                    #private::Some(#key)
                }
            }
        });
        quote! {
            #beside
            impl #private::Job for #payload {
                const TYPE: &'static str = #job_type;
                const DEFAULTS: #private::Defaults = #defaults;
                #secrets
                type Args = #args;
                type Return = #output;
                fn from_args(#pattern: Self::Args) -> Self {
                    Self { #(#names),* }
                }
                #label
                #unique_key
                #concurrency_key
            }
        }
    }

    /// The names of the secret parameters.
    fn secrets(&self) -> Vec<String> {
        let secret = self.item.payload().filter(|param| param.secret);
        secret.map(|param| param.name.unraw().to_string()).collect()
    }

    fn defaults(&self) -> TokenStream {
        let Self { options, private, .. } = self;
        let mut fields = Vec::new();
        if let Some(queue) = &options.queue {
            fields.push(quote!(queue: #queue));
        }
        if let Some(priority) = options.priority {
            fields.push(quote!(priority: #priority));
        }
        if let Some(limit) = options.max_attempts {
            fields.push(quote!(max_attempts: #private::Some(#limit)));
        }
        if let Some(timeout) = &options.timeout {
            let timeout = match timeout {
                Timeout::Never => quote!(Never),
                Timeout::After(limit) => {
                    let limit = duration_tokens(*limit, private);
                    quote!(After(#limit))
                }
            };
            fields.push(quote!(timeout: #private::Some(#private::Timeout::#timeout)));
        }
        if let Some(retain) = options.retain {
            let retain = duration_tokens(retain, private);
            fields.push(quote!(retain: #private::Some(#retain)));
        }
        if let Some(unique) = &options.unique {
            let rule = rule_tokens(unique, private);
            fields.push(quote!(unique: #private::Some(#rule)));
        }
        if let Some(bounds) = bounds_tokens(&options.limits, private) {
            fields.push(quote!(limits: #bounds));
        }
        if let Some(version) = options.version {
            fields.push(quote!(version: #version));
        }
        match fields.len() {
            0 => quote!(#private::Defaults::NONE),
            // All of them: clippy would find the update needless.
            8 => quote!(#private::Defaults { #(#fields),* }),
            _ => quote!(#private::Defaults { #(#fields,)* ..#private::Defaults::NONE }),
        }
    }

    /// The function under its own name, and the user's body in one within it: so a job can call and enqueue itself.
    fn function(&self) -> TokenStream {
        let Self { item, private, payload, allow, .. } = self;
        let Item { vis, name, body, output, .. } = item;
        let (cfg, doc, deprecated) = (&item.attrs.cfg, &item.attrs.doc, &item.attrs.deprecated);
        let (lint, inner_attrs) = (&item.attrs.lint, &item.attrs.inner);
        let inner = format_ident!("__{}", name.unraw(), span = name.span());
        let lends = item.params.iter().any(Param::is_lent);
        let (generics, lifetime) =
            if lends { (quote!(<'job>), quote!('job)) } else { (quote!(), quote!('static)) };
        let outer_params = item.params.iter().map(|param| {
            let Param { name, ty, lent, .. } = param;
            match param.is_lent() {
                true => quote!(#name: &'job #lent),
                false => quote!(#name: #ty),
            }
        });
        let inner_params = item.params.iter().map(|Param { lint, pat, ty, .. }| quote!(#(#lint)* #pat: #ty));
        let names: Vec<_> = item.params.iter().map(|param| &param.name).collect();
        let many = (names.len() > 7).then(|| quote!(#[allow(clippy::too_many_arguments)]));
        let asyncness = item.is_async.then(|| quote!(async));
        // At the name, so that a future that is not Send is told there.
        let here = at(private, name.span());
        let call = quote_spanned!(name.span()=> #inner(#(#names),*));
        let future = match (item.is_async, item.wrong_output) {
            (true, false) => call,
            (true, true) => quote!(async move { let _ = #call.await; }),
            (false, false) => quote!(async move { #call }),
            (false, true) => quote!(async move { let _ = #call; }),
        };
        let boxed = quote_spanned!(name.span()=> #here::Call::new(#here::Box::pin(#future)));
        quote! {
            #(#cfg)* #(#doc)* #(#deprecated)* #(#lint)* #allow #many
            #vis fn #name #generics(#(#outer_params),*) -> #private::Call<#lifetime, #payload> {
                #(#inner_attrs)*
                #asyncness fn #inner(#(#inner_params),*) -> #output #body
                #boxed
            }
        }
    }

    /// How a worker calls the function: with a payload that it has read and what it lends.
    fn call(&self) -> TokenStream {
        let Self { item, private, payload, beside, .. } = self;
        let name = &item.name;
        let [ctx, lent] = ["ctx", "lent"].map(local);
        let arguments = item.params.iter().map(|Param { kind, name, lent: ty, .. }| match kind {
            Kind::Payload => quote!(self.#name),
            Kind::Context => quote!(#ctx),
            Kind::DataRef => quote!(#private::lend::<#ty>(#lent)?),
            Kind::DataOwned => quote_spanned!(ty.span()=> #private::lend_clone::<#ty>(#lent)?),
        });
        let (of_ctx, of_lent) = (unused(&ctx, item, Kind::is_context), unused(&lent, item, Kind::is_data));
        quote! {
            #beside
            impl #private::CallJob for #payload {
                fn call<'a>(
                    self,
                    #of_ctx: &'a #private::JobContext,
                    #of_lent: &'a #private::DataMap,
                ) -> #private::Result<#private::Call<'a, Self>, #private::JobError> {
                    #private::Ok(#name(#(#arguments),*))
                }
            }
        }
    }

    /// The hidden entry, by which every worker that is linked with it knows the job.
    fn entry(&self) -> TokenStream {
        let Self { options, item, private, payload, job_type, beside, .. } = self;
        let (name, aliases, blocking) = (&item.name, &options.aliases, options.blocking);
        let function = name.unraw().to_string();
        let doc = doc_text(&item.attrs.doc);
        let backoff = backoff_tokens(options.backoff.as_ref(), private);
        let on_dead = match &options.on_dead {
            None => quote!(#private::None),
            Some(path) => {
                let here = at(private, path.span());
                quote_spanned!(path.span()=> #private::Some(#here::on_dead(&#path)))
            }
        };
        let data = item.params.iter().filter_map(|param| {
            let lent = &param.lent;
            param.kind.is_data().then(|| quote!(#private::DataNeed::of::<#lent>()))
        });
        // With parameters it has no payload; that was told.
        let cron = options.cron.pattern.as_ref().filter(|_| item.payload().next().is_none());
        let cron = cron.map(|pattern| cron_tokens(pattern, &options.cron, payload, private));
        let cron = cron.unwrap_or_else(|| quote!(#private::Option::None));
        let upgrade = upgrade_tokens(options.upgrade.as_ref(), private);
        let on = options.on.iter().map(|on| subscription(on, payload, private));
        let container = Container::read(options.serde.as_ref());
        let shape = &container.shape;
        let fields = item.payload().filter_map(|param| container.field(param));
        let fields = fields.map(|field| field_tokens(&field, private));
        let written = options.written.iter().map(|(word, value)| quote!((#word, #value)));
        let [text, job, ctx, lent] = ["text", "job", "ctx", "lent"].map(local);
        let call = quote!(#private::CallJob::call(#job, #ctx, #lent)?.await);
        let returned = &item.output;
        let stored = match item.wrong_output {
            true => quote!(#private::stored::<()>(#call)),
            false => quote!(#private::stored::<#returned>(#call)),
        };
        quote! {
            #beside
            const _: () = {
                #private::inventory::submit! {
                    #private::JobEntry {
                        job_type: #job_type,
                        aliases: &[#(#aliases),*],
                        defaults: <#payload as #private::Job>::DEFAULTS,
                        backoff: #backoff,
                        blocking: #blocking,
                        on_dead: #on_dead,
                        data: &[#(#data),*],
                        on: &[#(#on),*],
                        cron: #cron,
                        secrets: <#payload as #private::Job>::SECRETS,
                        upgrade: #upgrade,
                        check: #private::check::<#payload>,
                        run: |#text, #ctx, #lent| {
                            let #job = #private::decode::<#payload>(#text)?;
                            #private::Ok(#private::Box::pin(async move { #stored }))
                        },
                        fields: &[#(#fields),*],
                        shape: #shape,
                        written: &[#(#written),*],
                        doc: #doc,
                        function: #function,
                        module: #private::module_path!(),
                        file: #private::file!(),
                        line: #private::line!(),
                    }
                }
            };
        }
    }
}

/// A path as serde's attributes take it.
fn path(tokens: &TokenStream) -> String {
    tokens.to_string().replace(' ', "")
}

/// A name in expanded code, hidden from those that the user wrote, whatever they are.
fn local(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// The local where a parameter of the function asks for it, else `_`.
fn unused(local: &Ident, item: &Item, asks: fn(Kind) -> bool) -> TokenStream {
    if item.params.iter().any(|param| asks(param.kind)) { quote!(#local) } else { quote!(_) }
}

/// `send_welcome_email` → `SendWelcomeEmail`.
fn payload_name(function: &Ident, mistakes: &mut Mistakes) -> Option<Ident> {
    let words = function.unraw().to_string();
    let camel: String = words.split('_').flat_map(capitalized).collect();
    let name = syn::parse_str::<Ident>(&camel)
        .ok()
        .map(|_| Ident::new(&camel, Span::call_site().located_at(function.span())));
    if name.is_none() {
        let text = format!("`{camel}` can't be the name of a struct: name the payload with `payload = …`");
        mistakes.say(function.span(), text);
    }
    name
}

fn capitalized(word: &str) -> impl Iterator<Item = char> {
    let mut letters = word.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters)
}

fn job_type(options: &Options, function: &Ident, mistakes: &mut Mistakes) -> LitStr {
    if let Some(written) = &options.job_type {
        return written.clone();
    }
    let name = LitStr::new(&function.unraw().to_string(), function.span());
    if let Err(why) = check_name(&name.value()) {
        mistakes.say(function.span(), format!("{why}: set a shorter `type = \"…\"`"));
    }
    name
}

/// A key of the whole payload would have the secrets in it.
fn check_whole_key(options: &Options, item: &Item, mistakes: &mut Mistakes) {
    let Some(secret) = item.payload().find(|param| param.secret) else { return };
    if options.unique.as_ref().is_some_and(|unique| unique.key.is_none()) {
        let text = "the unique key would be made of the whole payload, and show this secret: \
                    name fields in it, as in `unique(key = \"{user_id}\")`";
        mistakes.at(&secret.pat, text);
    }
}

/// Secrets are marked as fields, so the payload has to have fields.
fn check_container(options: &Options, item: &Item, mistakes: &mut Mistakes) {
    const OTHER_SHAPES: [&str; 4] = ["transparent", "from", "try_from", "into"];
    let Some(serde) = &options.serde else { return };
    if !item.payload().any(|param| param.secret) {
        return;
    }
    for token in serde.clone() {
        if OTHER_SHAPES.iter().any(|word| token.to_string() == *word) {
            let text = format!(
                "a payload with a `#[secret]` is an object, whose secret fields anybody can tell from the others; \
                 `{token}` makes something else of it"
            );
            mistakes.at(token, text);
        }
    }
}

fn check_aliases(aliases: &[LitStr], job_type: &LitStr, mistakes: &mut Mistakes) {
    for (place, alias) in aliases.iter().enumerate() {
        if alias.value() == job_type.value() {
            mistakes.at(alias, "this is the job's own name; aliases are its former ones");
        } else if aliases[..place].iter().any(|other| other.value() == alias.value()) {
            mistakes.at(alias, "this alias is given twice");
        }
    }
}

/// Nobody is there at a tick who could give arguments.
fn check_cron(cron: &Cron, item: &Item, payload: &Ident, mistakes: &mut Mistakes) {
    let Some(param) = item.payload().next().filter(|_| cron.pattern.is_some()) else { return };
    let name = &param.name;
    let text = format!(
        "a job with `cron` is enqueued without arguments, and `{name}` has no value then; give `cron` to a job without \
         parameters that enqueues this one, or schedule it at run time: \
         `queue.schedule(Schedule::new(\"nightly\", \"30 2 * * *\", {payload} {{ … }}))`"
    );
    mistakes.at(name, text);
}

fn cron_tokens(pattern: &LitStr, cron: &Cron, payload: &Ident, private: &TokenStream) -> TokenStream {
    let zone = cron.zone.as_ref().map_or_else(|| "UTC".to_owned(), LitStr::value);
    let catch_up = match cron.catch_up {
        None | Some(CatchUp::Once) => quote!(Once),
        Some(CatchUp::OnceWithin(time)) => {
            let time = duration_tokens(time, private);
            quote!(OnceWithin(#time))
        }
        Some(CatchUp::All(most)) => quote!(All(#most)),
        Some(CatchUp::Skip) => quote!(Skip),
    };
    let overlap = if cron.skips == Some(true) { quote!(Skip) } else { quote!(Allow) };
    quote! {
        #private::Some(#private::CronEntry {
            pattern: #pattern,
            zone: #zone,
            catch_up: #private::CatchUp::#catch_up,
            overlap: #private::Overlap::#overlap,
            payload: || #private::encode(&<#payload as #private::Job>::from_args(())),
        })
    }
}

/// A job that is told of its own death would be enqueued again for ever.
fn check_on_dead(on_dead: Option<&syn::Path>, function: &Ident, mistakes: &mut Mistakes) {
    if let Some(path) = on_dead
        && path.is_ident(function)
    {
        mistakes
            .at(path, "a job can't be its own `on_dead`: each death of it would enqueue it anew, for ever");
    }
}

fn backoff_tokens(backoff: Option<&Backoff>, private: &TokenStream) -> TokenStream {
    let set = match backoff {
        None => return quote!(#private::BackoffPolicy::Unset),
        Some(Backoff::Own(path)) => return quote_spanned!(path.span()=> #private::BackoffPolicy::Own(#path)),
        Some(Backoff::DoublingToAMinute) => quote!(#private::Backoff::DOUBLING_TO_A_MINUTE),
        Some(Backoff::Fixed { delay, jitter }) => {
            let delay = duration_tokens(*delay, private);
            quote!(#private::Backoff::Fixed { delay: #delay, jitter: #jitter })
        }
        Some(Backoff::Exponential { base, factor, max, jitter }) => {
            let (base, max) = (duration_tokens(*base, private), duration_tokens(*max, private));
            quote!(#private::Backoff::Exponential { base: #base, factor: #factor, max: #max, jitter: #jitter })
        }
    };
    quote!(#private::BackoffPolicy::Set(#set))
}

fn field_tokens(field: &Field, private: &TokenStream) -> TokenStream {
    let Field { name, aliases, ty, optional, flatten, secret, doc, template, read_as } = field;
    let schema = match read_as {
        Some(ty) => quote!(#private::type_schema!(#ty)),
        None => quote!(#private::TypeSchema::NONE),
    };
    quote! {
        #private::Field {
            name: #name,
            aliases: &[#(#aliases),*],
            ty: #ty,
            optional: #optional,
            flatten: #flatten,
            secret: #secret,
            doc: #doc,
            template: #template,
            schema: #schema,
        }
    }
}

fn upgrade_tokens(upgrade: Option<&Path>, private: &TokenStream) -> TokenStream {
    let Some(path) = upgrade else { return quote!(#private::None) };
    let place = path.span();
    let local = |name| Ident::new(name, Span::mixed_site().located_at(place));
    let (stored, payload, here) = (local("stored"), local("payload"), at(private, place));
    quote_spanned!(place=> #here::Some(|#stored, #payload| #here::upgraded(#path(#stored, #payload))))
}

/// One event that the job follows from, and how its payloads are made of it: each mistake is told at its part.
fn subscription(On { event, with }: &On, payload: &Ident, private: &TokenStream) -> TokenStream {
    let place = with.as_ref().map_or_else(|| event.span(), Spanned::span);
    let local = |name| Ident::new(name, Span::mixed_site().located_at(place));
    let (given, heard) = (local("given"), local("heard"));
    let mut payload = payload.clone();
    payload.set_span(payload.span().located_at(place));
    let here = at(private, place);
    let payloads = match with {
        None => quote_spanned!(place=> #here::followed::<#event, #payload>(#heard)),
        Some(path) => quote_spanned!(place=> #here::payloads::<#payload, _>(#path(#heard))),
    };
    let map = quote!(|#given| #private::follow::<#event>(#given, |#heard| #payloads));
    let here = at(private, event.span());
    quote_spanned!(event.span()=> #here::subscription::<#event>(#map))
}

/// The tokens as if they were written there; what they name stays.
fn at(tokens: &TokenStream, place: Span) -> TokenStream {
    let placed = tokens.clone().into_iter().map(|mut token| {
        token.set_span(token.span().located_at(place));
        token
    });
    placed.collect()
}

/// What was written as docs, or else a line, so that `deny(missing_docs)` is content.
fn docs_or(docs: &[Attribute], line: impl FnOnce() -> String) -> TokenStream {
    if docs.is_empty() {
        let line = format!(" {}", line());
        return quote!(#[doc = #line]);
    }
    quote!(#(#docs)*)
}

/// Lint levels for items that the user did not write: what is expected of the function need not come true in them.
fn on_every_item(lints: &[Attribute]) -> Vec<Attribute> {
    let lints = lints.iter().cloned().map(|mut lint| {
        if let syn::Meta::List(list) = &mut lint.meta
            && list.path.is_ident("expect")
        {
            list.path = syn::parse_quote!(allow);
        }
        lint
    });
    lints.collect()
}

#[cfg(test)]
mod golden;
