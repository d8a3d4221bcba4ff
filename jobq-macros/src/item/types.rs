//! Types as they are written: looked into without knowing what they name.

use crate::Mistakes;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{GenericArgument, PathArguments, Type};

/// The type without the invisible groups and parentheses around it.
pub(crate) fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        ty => ty,
    }
}

/// The name at the end of the type's path.
pub(crate) fn last_name(ty: &Type) -> Option<String> {
    match bare(ty) {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}

/// Whether the type stands on its own, wherever it is used.
pub(crate) fn check_no_borrow(ty: &Type, why: &str, mistakes: &mut Mistakes) -> bool {
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

pub(crate) enum Open {
    Borrow,
    ImplTrait,
}

/// The first part of a type that is not the same everywhere: a reference or lifetime but `'static`, an `impl`.
pub(crate) fn open_part(tokens: TokenStream) -> Option<(Span, Open)> {
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

/// The type arguments of a type with this name.
pub(crate) fn type_arguments(ty: &Type, name: &str) -> Option<impl Iterator<Item = Type>> {
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
pub(crate) fn shown(ty: &Type) -> String {
    spaced(ty.to_token_stream())
}

/// Tokens with spaces where a person writes them, whatever the compiler's own way is.
pub(crate) fn spaced(tokens: TokenStream) -> String {
    let spaced = tokens.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    let tight = [
        (" < ", "<"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" :: ", "::"),
        (" ,", ","),
        (" ;", ";"),
        ("& ", "&"),
        ("[ ", "["),
        (" ]", "]"),
        ("( ", "("),
        (" )", ")"),
    ]
    .into_iter()
    .fold(spaced, |text, (from, to)| text.replace(from, to));
    // A call's parenthesis stands at its name, that of a tuple does not.
    let mut text = String::with_capacity(tight.len());
    for (place, part) in tight.split(" (").enumerate() {
        let after_name = text.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        text += if place == 0 {
            ""
        } else if after_name {
            "("
        } else {
            " ("
        };
        text += part;
    }
    text
}
