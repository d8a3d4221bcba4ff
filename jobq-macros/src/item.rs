//! The function under the attribute: its signature parsed and checked, its body left as it was written.

use crate::{Mistakes, did_you_mean};
use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{
    Attribute, FnArg, GenericArgument, Generics, Ident, LitStr, Meta, Pat, PatType, PathArguments, Result,
    ReturnType, Safety, Signature, Token, Type, TypeReference, Visibility,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
    spanned::Spanned,
};

/// Parameters of a job function at most, context and data counted: as many as `JobFn` has arities.
const MAX_PARAMS: usize = 16;

/// A function as written.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    pub(crate) body: Group,
}

impl Parse for Function {
    fn parse(input: ParseStream) -> Result<Self> {
        let attrs = Attribute::parse_outer(input)?;
        let vis = input.parse()?;
        if !is_function(input) {
            return Err(input.error("`#[job]` goes on a function"));
        }
        let sig = input.parse()?;
        let body: Group = input.parse()?;
        if body.delimiter() != Delimiter::Brace {
            return Err(syn::Error::new(body.span(), "a job function has a body"));
        }
        Ok(Self { attrs, vis, sig, body })
    }
}

impl Function {
    /// The function as it was written, without what only `#[job]` understands.
    pub(crate) fn plain(&self) -> TokenStream {
        let (attrs, vis, mut sig, body) = (&self.attrs, &self.vis, self.sig.clone(), &self.body);
        for input in &mut sig.inputs {
            let attrs = match input {
                FnArg::Typed(param) => &mut param.attrs,
                FnArg::Receiver(receiver) => &mut receiver.attrs,
            };
            attrs.retain(|attr| is_lint(&word(attr.path())));
        }
        quote!(#(#attrs)* #vis #sig #body)
    }
}

fn is_function(input: ParseStream) -> bool {
    let ahead = input.fork();
    while !ahead.peek(Token![fn]) {
        let qualifier = ahead.peek(Token![const]) || ahead.peek(Token![async]) || ahead.peek(Token![unsafe]);
        let abi = ahead.peek(Token![extern]) || ahead.peek(LitStr);
        if !(qualifier || abi) || ahead.parse::<TokenTree>().is_err() {
            return false;
        }
    }
    true
}

/// A function as expanded code needs it.
pub(crate) struct Item {
    pub(crate) attrs: Attrs,
    pub(crate) vis: Visibility,
    pub(crate) name: Ident,
    pub(crate) is_async: bool,
    pub(crate) params: Vec<Param>,
    /// What the function was written to return.
    pub(crate) output: Type,
    /// Whether `output` can't be what a job returns; said already.
    pub(crate) wrong_output: bool,
    pub(crate) body: Group,
}

/// The attributes of the function, by where they go.
#[derive(Default)]
pub(crate) struct Attrs {
    pub(crate) cfg: Vec<Attribute>,
    pub(crate) doc: Vec<Attribute>,
    pub(crate) deprecated: Vec<Attribute>,
    pub(crate) lint: Vec<Attribute>,
    pub(crate) inner: Vec<Attribute>,
}

/// One parameter.
pub(crate) struct Param {
    pub(crate) kind: Kind,
    /// The name of the field and of the outer function's parameter.
    pub(crate) name: Ident,
    /// The pattern as written.
    pub(crate) pat: Pat,
    pub(crate) ty: Type,
    /// The type without its `&`, for context and data.
    pub(crate) lent: Type,
    pub(crate) serde: Vec<Attribute>,
    pub(crate) doc: Vec<Attribute>,
    pub(crate) lint: Vec<Attribute>,
}

/// Where a parameter's value comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Payload,
    Context,
    /// `#[data] x: &T`
    DataRef,
    /// `#[data] x: T`, a clone
    DataOwned,
}

impl Item {
    /// Checks the function. `None`: there is no job in it that could be expanded.
    pub(crate) fn check(function: Function, blocking: bool, mistakes: &mut Mistakes) -> Option<Self> {
        let Function { attrs, vis, sig, body } = function;
        let attrs = Attrs::sort(attrs);
        check_qualifiers(&sig, blocking, mistakes);
        let closed = check_closed(&sig, mistakes);
        let params = check_params(&sig, mistakes);
        let (output, wrong_output) = check_output(&sig, mistakes);
        let item = Self {
            attrs,
            vis,
            name: sig.ident,
            is_async: sig.asyncness.is_some(),
            params: params?,
            output,
            wrong_output,
            body,
        };
        closed.then_some(item)
    }

    /// The parameters that are fields of the payload.
    pub(crate) fn payload(&self) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(|param| param.kind == Kind::Payload)
    }
}

/// What a job function is not: checked, and left out of the expansion.
fn check_qualifiers(sig: &Signature, blocking: bool, mistakes: &mut Mistakes) {
    if let Some(word) = &sig.constness {
        mistakes.say(word.span(), "a job function is not `const`: it runs in a worker");
    }
    if let Safety::Unsafe(word) = &sig.safety {
        mistakes.say(
            word.span(),
            "a job function is not `unsafe`: the worker that calls it can't know what it asks for",
        );
    }
    if let Some(abi) = &sig.abi {
        mistakes
            .at(abi, "a job function is not `extern`: take this away and call the foreign function inside");
    }
    if let Some(variadic) = &sig.variadic {
        mistakes.at(variadic, "a job has named parameters only");
    }
    if sig.asyncness.is_none() && !blocking {
        let text =
            "a job is an `async fn`; a plain function that blocks its thread is written `#[job(blocking)]`";
        mistakes.say(sig.fn_token.span(), text);
    }
}

/// A job is one function with one payload: nothing in it may be left open.
fn check_closed(sig: &Signature, mistakes: &mut Mistakes) -> bool {
    let before = mistakes.count();
    let generics = &sig.generics;
    if generics.type_params().next().is_some() || generics.const_params().next().is_some() {
        let text = "a job is not generic: a worker must know the one type that its rows decode to; \
                    write a job for each type, and let them call one generic function";
        mistakes.at(&generics.params, text);
    } else if generics.lifetimes().next().is_some() {
        mistakes.at(
            &generics.params,
            "a job names no lifetimes: write `ctx: &JobContext` and `#[data] x: &T` without them",
        );
    } else if let Some(clause) = &generics.where_clause {
        mistakes.at(clause, "a job is not generic, so there is nothing to bound");
    }
    if let Some(receiver) = sig.receiver() {
        let text = "a job is a free function, it has no `self`: its parameters are stored and a worker calls it later; \
                    take a shared value as `#[data] x: &T`";
        mistakes.at(receiver, text);
    }
    mistakes.count() == before
}

fn check_params(sig: &Signature, mistakes: &mut Mistakes) -> Option<Vec<Param>> {
    let written = sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(param) => Some(param),
        FnArg::Receiver(_) => None,
    });
    if let Some(first_too_many) = sig.inputs.iter().nth(MAX_PARAMS) {
        let text = format!(
            "a job has at most {MAX_PARAMS} parameters, context and data counted; put some into a struct of your own"
        );
        mistakes.at(first_too_many, text);
    }
    let params: Vec<_> = written
        .enumerate()
        .map(|(place, param)| Param::check(place, param, &sig.generics, mistakes))
        .collect();
    let mut contexts = params.iter().flatten().filter(|param| param.kind == Kind::Context);
    if let (Some(_), Some(second)) = (contexts.next(), contexts.next()) {
        mistakes.at(&second.pat, "a job has one context, and this is a second one");
    }
    params.into_iter().collect()
}

impl Param {
    /// `None`: no field of any payload could hold it.
    fn check(place: usize, written: &PatType, generics: &Generics, mistakes: &mut Mistakes) -> Option<Self> {
        let mut param = Self {
            kind: Kind::Payload,
            name: format_ident!("arg{place}", span = written.pat.span()),
            pat: (*written.pat).clone(),
            ty: (*written.ty).clone(),
            lent: (*written.ty).clone(),
            serde: Vec::new(),
            doc: Vec::new(),
            lint: Vec::new(),
        };
        let data = param.sort_attrs(&written.attrs, mistakes);
        param.name_it(mistakes, data);
        let fits = match bare(&param.ty) {
            Type::Reference(reference) if data || is_context(&reference.elem) => {
                param.kind = if data { Kind::DataRef } else { Kind::Context };
                param.lent = (*reference.elem).clone();
                check_lent(reference, generics, mistakes)
            }
            ty if data => {
                param.kind = Kind::DataOwned;
                check_no_borrow(ty, "data is found by its type, so that type can't borrow", mistakes)
            }
            ty => check_payload(ty, mistakes),
        };
        if param.kind != Kind::Payload && !param.serde.is_empty() {
            mistakes.at(&param.serde[0], "only payload parameters are stored; take `serde` away here");
        }
        fits.then_some(param)
    }

    /// Sorts the attributes of a parameter; whether `#[data]` is among them.
    fn sort_attrs(&mut self, attrs: &[Attribute], mistakes: &mut Mistakes) -> bool {
        const KNOWN: [&str; 4] = ["data", "serde", "doc", "allow"];
        let mut data = false;
        for attr in attrs {
            let name = attr.path().get_ident().map(Ident::to_string).unwrap_or_default();
            match name.as_str() {
                "data" if data => mistakes.at(attr, "`#[data]` is given twice"),
                "data" => {
                    data = true;
                    if !matches!(attr.meta, Meta::Path(_)) {
                        mistakes.at(attr, "write `#[data]`: the value is found by the parameter's type");
                    }
                }
                "serde" => self.serde.push(attr.clone()),
                "doc" => self.doc.push(attr.clone()),
                "secret" => mistakes.at(attr, "`#[secret]` is not available in this version of jobq"),
                "cfg" | "cfg_attr" => {
                    mistakes.at(
                        attr,
                        "a parameter can't depend on `cfg`: each build would store another payload",
                    );
                }
                _ if is_lint(&name) => self.lint.push(attr.clone()),
                _ => {
                    let text = format!(
                        "unknown attribute of a parameter{}\nknown are `#[data]`, `#[serde(…)]`, doc comments and lint levels",
                        did_you_mean(&name, KNOWN)
                    );
                    mistakes.at(attr, text);
                }
            }
        }
        data
    }

    /// Takes the name out of the pattern; a payload parameter must have one, for it becomes a field.
    fn name_it(&mut self, mistakes: &mut Mistakes, data: bool) {
        match &self.pat {
            Pat::Ident(pat) if pat.by_ref.is_none() && pat.subpat.is_none() => self.name = pat.ident.clone(),
            _ if data || matches!(bare(&self.ty), Type::Reference(_)) => {}
            pat => mistakes.at(
                pat,
                "a payload parameter has a plain name, which becomes its field; take it apart in the body",
            ),
        }
    }
}

/// The type without the invisible groups and parentheses around it.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        ty => ty,
    }
}

/// The name at the end of the type's path.
fn last_name(ty: &Type) -> Option<String> {
    match bare(ty) {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

fn is_context(ty: &Type) -> bool {
    last_name(ty).is_some_and(|name| name == "JobContext")
}

fn check_lent(reference: &TypeReference, generics: &Generics, mistakes: &mut Mistakes) -> bool {
    if let Some(word) = &reference.mutability {
        mistakes.say(word.span(), "what a worker lends is shared by all its jobs: take `&`, not `&mut`");
        return false;
    }
    if let Some(lifetime) = &reference.lifetime {
        // A declared one is told where it is declared.
        if !generics.lifetimes().any(|declared| declared.lifetime == *lifetime) {
            mistakes.at(lifetime, "a job names no lifetimes: write `&` alone");
        }
        return false;
    }
    let unsized_type = match bare(&reference.elem) {
        Type::TraitObject(_) | Type::Slice(_) => true,
        ty => last_name(ty).is_some_and(|name| name == "str"),
    };
    if unsized_type {
        let shown = shown(&reference.elem);
        let text = format!(
            "data is found by its type, which must have a size: take `&Box<{shown}>` or `&Arc<{shown}>`"
        );
        mistakes.at(&reference.elem, text);
        return false;
    }
    check_no_borrow(&reference.elem, "data is found by its type, so that type can't borrow", mistakes)
}

fn check_payload(ty: &Type, mistakes: &mut Mistakes) -> bool {
    const WHY: &str = "a payload is stored and read again by a worker, so it can't borrow";
    if is_context(ty) {
        mistakes.at(ty, "take the context as `&JobContext`");
        return false;
    }
    let Type::Reference(reference) = ty else { return check_no_borrow(ty, WHY, mistakes) };
    let owned = match bare(&reference.elem) {
        Type::Slice(slice) => format!("Vec<{}>", shown(&slice.elem)),
        elem => match last_name(elem).as_deref() {
            Some("str") => "String".into(),
            Some("Path") => "PathBuf".into(),
            _ => shown(elem),
        },
    };
    let text = format!("{WHY}: take `{owned}`, or mark it `#[data]` where the worker is to lend it");
    mistakes.at(ty, text);
    false
}

/// Whether the type stands on its own, wherever it is used.
fn check_no_borrow(ty: &Type, why: &str, mistakes: &mut Mistakes) -> bool {
    match open_part(ty.to_token_stream()) {
        Some((span, Open::Borrow)) => mistakes.say(span, why),
        Some((span, Open::ImplTrait)) => {
            mistakes.say(
                span,
                "a job is not generic: `impl` stands for many types, and a stored payload is of one",
            );
        }
        None => return true,
    }
    false
}

enum Open {
    Borrow,
    ImplTrait,
}

/// The first part of a type that is not the same everywhere: a reference or lifetime but `'static`, an `impl`.
fn open_part(tokens: TokenStream) -> Option<(Span, Open)> {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            // The lifetime that may follow tells.
            TokenTree::Punct(and) if and.as_char() == '&' => match tokens.peek() {
                Some(TokenTree::Punct(tick)) if tick.as_char() == '\'' => {}
                _ => return Some((and.span(), Open::Borrow)),
            },
            TokenTree::Punct(tick) if tick.as_char() == '\'' => match tokens.next() {
                Some(TokenTree::Ident(name)) if name == "static" => {}
                _ => return Some((tick.span(), Open::Borrow)),
            },
            TokenTree::Ident(word) if word == "impl" => return Some((word.span(), Open::ImplTrait)),
            TokenTree::Group(group) => match open_part(group.stream()) {
                None => {}
                found => return found,
            },
            _ => {}
        }
    }
    None
}

/// The written return type, and whether it is clear already that no job can return it.
fn check_output(sig: &Signature, mistakes: &mut Mistakes) -> (Type, bool) {
    let ReturnType::Type(_, ty) = &sig.output else { return (syn::parse_quote!(()), false) };
    let plain = match bare(ty) {
        Type::Path(_) => last_name(ty).is_some_and(|name| PLAIN.contains(&name.as_str())),
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        Type::Array(_) | Type::Never(_) | Type::Ptr(_) | Type::TraitObject(_) => true,
        _ => false,
    };
    if plain {
        let shown = shown(ty);
        mistakes.at(
            ty,
            format!("a job returns `()` or a `Result`, not `{shown}`: write `-> Result<{shown}, JobError>`"),
        );
        return ((**ty).clone(), true);
    }
    if let Some(error) = unshareable_error(ty) {
        mistakes.at(error, "a job's error moves between threads: write `Box<dyn Error + Send + Sync>`");
        return ((**ty).clone(), true);
    }
    let fits = match open_part(ty.to_token_stream()) {
        Some((span, Open::Borrow)) => {
            mistakes.say(span, "the output of a job is stored, so it can't borrow");
            false
        }
        Some((span, Open::ImplTrait)) => {
            mistakes.say(span, "a job returns one type that can be stored: write it out instead of `impl`");
            false
        }
        None => true,
    };
    ((**ty).clone(), !fits)
}

/// Types that are no alias of a `Result`, whatever is imported.
const PLAIN: [&str; 20] = [
    "bool", "char", "str", "String", "Vec", "Option", "HashMap", "u8", "u16", "u32", "u64", "u128", "usize",
    "i8", "i16", "i32", "i64", "i128", "isize", "f64",
];

/// The `Box<dyn Error>` of a `Result<T, Box<dyn Error>>`.
fn unshareable_error(ty: &Type) -> Option<Type> {
    let error = type_arguments(ty, "Result")?.nth(1)?;
    let boxed = type_arguments(&error, "Box")?.next()?;
    let Type::TraitObject(object) = bare(&boxed) else { return None };
    let bounds = object.bounds.to_token_stream().to_string();
    (bounds.contains("Error") && !(bounds.contains("Send") && bounds.contains("Sync"))).then_some(error)
}

/// The type arguments of a type with this name.
fn type_arguments(ty: &Type, name: &str) -> Option<impl Iterator<Item = Type>> {
    let Type::Path(path) = bare(ty) else { return None };
    let last = path.path.segments.last().filter(|segment| segment.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty.clone()),
        _ => None,
    });
    Some(types.collect::<Vec<_>>().into_iter())
}

/// A type as a person writes it.
fn shown(ty: &Type) -> String {
    let spaced = ty.to_token_stream().to_string();
    [
        (" < ", "<"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" :: ", "::"),
        (" ,", ","),
        ("& ", "&"),
        ("[ ", "["),
        (" ]", "]"),
    ]
    .into_iter()
    .fold(spaced, |text, (from, to)| text.replace(from, to))
}

fn is_lint(name: &str) -> bool {
    matches!(name, "allow" | "warn" | "deny" | "forbid" | "expect")
}

impl Attrs {
    /// By where they go: `cfg`, docs, `deprecated` and lint levels on every item, all others on the inner function.
    fn sort(attrs: Vec<Attribute>) -> Self {
        let mut sorted = Self::default();
        for attr in attrs.into_iter().flat_map(one_each) {
            let kind = match cfg_attr(&attr) {
                Some((_, within)) => within.first().map(|meta| word(meta.path())),
                None => Some(word(attr.path())),
            };
            match kind.unwrap_or_default().as_str() {
                "cfg" => sorted.cfg.push(attr),
                "doc" => sorted.doc.push(attr),
                "deprecated" => sorted.deprecated.push(attr),
                name if is_lint(name) => sorted.lint.push(attr),
                _ => sorted.inner.push(attr),
            }
        }
        sorted
    }
}

fn word(path: &syn::Path) -> String {
    path.get_ident().map(Ident::to_string).unwrap_or_default()
}

/// The condition and the attributes of a `cfg_attr`.
fn cfg_attr(attr: &Attribute) -> Option<(Meta, Vec<Meta>)> {
    if word(attr.path()) != "cfg_attr" {
        return None;
    }
    let list = attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let mut list = list.into_iter();
    Some((list.next()?, list.collect()))
}

/// A `cfg_attr` of several attributes as several of one each, for they may go to different places.
fn one_each(attr: Attribute) -> Vec<Attribute> {
    match cfg_attr(&attr) {
        Some((condition, within)) if within.len() > 1 => {
            within.into_iter().map(|meta| syn::parse_quote!(#[cfg_attr(#condition, #meta)])).collect()
        }
        _ => vec![attr],
    }
}
