//! The function under the attribute: its signature parsed and checked, its body left as it was written.

mod attrs;
mod param;
mod stored;
mod template;
mod types;

pub(crate) use attrs::{Attrs, doc_text};
pub(crate) use param::{Kind, Param};
pub(crate) use stored::{Container, Field};
pub(crate) use types::spaced;

use self::{
    attrs::{is_lint, word},
    types::{Open, bare, last_name, open_part, shown, type_arguments},
};
use crate::Mistakes;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Attribute, FnArg, Ident, LitStr, Result, ReturnType, Safety, Signature, Token, Type, Visibility,
    parse::{Parse, ParseStream},
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
