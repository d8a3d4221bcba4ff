//! The `#[jobq::test]` attribute: an async test with a queue of its own.

use crate::{Mistakes, did_you_mean, item::Function};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{
    Attribute, FnArg, Ident, Path, Result, Safety, Signature, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
    spanned::Spanned,
};

/// The options as written.
struct Options {
    sqlite: bool,
    jobq: Path,
}

/// Parse → check → expand. Whatever is wrong, the user's function is in the answer.
pub(crate) fn expand(options: TokenStream, function: TokenStream) -> TokenStream {
    let mut mistakes = Mistakes::default();
    let options = Options::read(options, &mut mistakes);
    let tokens = match syn::parse2::<Function>(function.clone()) {
        Err(mistake) => {
            mistakes.add(mistake);
            function
        }
        Ok(function) => {
            check(&function, &mut mistakes);
            if mistakes.count() > 0 { function.plain() } else { test(&options, &function) }
        }
    };
    let mistakes = mistakes.into_tokens();
    quote!(#tokens #mistakes)
}

impl Options {
    fn read(tokens: TokenStream, mistakes: &mut Mistakes) -> Self {
        let mut options = Self { sqlite: false, jobq: syn::parse_quote!(::jobq) };
        let all = |input: ParseStream| {
            while !input.is_empty() {
                options.read_one(input)?;
                if !input.is_empty() {
                    input.parse::<Token![,]>()?;
                }
            }
            Ok(())
        };
        if let Err(mistake) = all.parse2(tokens) {
            mistakes.add(mistake);
        }
        options
    }

    fn read_one(&mut self, input: ParseStream) -> Result<()> {
        let word = Ident::parse_any(input)?;
        let name = word.to_string();
        match name.as_str() {
            "sqlite" => self.sqlite = true,
            "crate" => {
                input.parse::<Token![=]>()?;
                self.jobq = Path::parse_mod_style(input)?;
            }
            _ => {
                let meant = did_you_mean(&name, ["sqlite", "crate"]);
                let text = format!(
                    "unknown option `{name}`{meant}\nknown are `sqlite`, for a queue in a file, and `crate = my_jobq`"
                );
                return Err(syn::Error::new(word.span(), text));
            }
        }
        Ok(())
    }
}

fn check(function: &Function, mistakes: &mut Mistakes) {
    let Function { attrs, sig, .. } = function;
    if sig.asyncness.is_none() {
        let text = "a test with a queue is an `async fn`; one that needs no queue is a plain `#[test]`";
        mistakes.say(sig.fn_token.span(), text);
    }
    if let Safety::Unsafe(word) = &sig.safety {
        mistakes.say(word.span(), "a test is not `unsafe`");
    }
    if !sig.generics.params.is_empty() {
        mistakes.at(&sig.generics.params, "a test is not generic: nobody would say for which type it runs");
    }
    check_params(sig, mistakes);
    for attr in attrs {
        check_attr(attr, mistakes);
    }
}

fn check_params(sig: &Signature, mistakes: &mut Mistakes) {
    if let Some(receiver) = sig.receiver() {
        mistakes.at(receiver, "a test is a free function, it has no `self`");
    } else if let Some(second) = sig.inputs.iter().nth(1) {
        let text = "a test takes its queue, `queue: TestQueue`, and nothing else; what its jobs need is lent with \
                    `queue.data(value)`";
        mistakes.at(second, text);
    }
}

fn check_attr(attr: &Attribute, mistakes: &mut Mistakes) {
    let last = attr.path().segments.last().map(|segment| segment.ident.to_string());
    match last.as_deref() {
        Some("test") => mistakes.at(attr, "`#[jobq::test]` makes this a test already: take this away"),
        Some("job") => mistakes.at(attr, "a test is not a job: take one of the two away"),
        _ => {}
    }
}

fn test(options: &Options, function: &Function) -> TokenStream {
    let Function { attrs, vis, sig, body } = function;
    let Options { sqlite, jobq } = options;
    let (name, output) = (&sig.ident, &sig.output);
    let local = |place: Span| Ident::new("queue", Span::mixed_site().located_at(place));
    let call = match sig.inputs.first() {
        Some(FnArg::Typed(param)) => {
            // At the type: should it be another one than TestQueue, that is told there.
            let (queue, here) = (local(Span::call_site()), local(param.ty.span()));
            let call = quote_spanned!(name.span()=> #name(#here));
            quote!(|#queue| #call)
        }
        _ => quote!(|_| #name()),
    };
    let inner = sig.to_token_stream();
    quote! {
        #(#attrs)*
        #[::core::prelude::v1::test]
        #vis fn #name() #output {
            #inner #body
            #jobq::testing::in_test(#sqlite, #call)
        }
    }
}
