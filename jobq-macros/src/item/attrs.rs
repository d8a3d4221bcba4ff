//! The attributes of the function, sorted by where they go.

use syn::{Attribute, Expr, ExprLit, Ident, Lit, Meta, MetaNameValue, Token, punctuated::Punctuated};

/// The attributes of the function, by where they go.
#[derive(Default)]
pub(crate) struct Attrs {
    pub(crate) cfg: Vec<Attribute>,
    pub(crate) doc: Vec<Attribute>,
    pub(crate) deprecated: Vec<Attribute>,
    pub(crate) lint: Vec<Attribute>,
    pub(crate) inner: Vec<Attribute>,
}

impl Attrs {
    /// By where they go: `cfg`, docs, `deprecated` and lint levels on every item, all others on the inner function.
    pub(super) fn sort(attrs: Vec<Attribute>) -> Self {
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

pub(crate) fn is_lint(name: &str) -> bool {
    matches!(name, "allow" | "warn" | "deny" | "forbid" | "expect")
}

pub(crate) fn word(path: &syn::Path) -> String {
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

/// The text of doc comments, its lines as they were written; what is no literal is left out.
pub(crate) fn doc_text(docs: &[Attribute]) -> String {
    let line = |attr: &Attribute| match &attr.meta {
        Meta::NameValue(MetaNameValue { value: Expr::Lit(ExprLit { lit: Lit::Str(text), .. }), .. }) => {
            let text = text.value();
            Some(text.strip_prefix(' ').unwrap_or(&text).to_owned())
        }
        _ => None,
    };
    docs.iter().filter_map(line).collect::<Vec<_>>().join("\n").trim().to_owned()
}
