//! One parameter: payload, context or data.

use super::{
    attrs::is_lint,
    types::{bare, check_no_borrow, last_name, shown},
};
use crate::{Mistakes, did_you_mean};
use proc_macro2::{TokenStream, TokenTree};
use quote::{format_ident, quote};

use syn::{
    Attribute, Generics, Ident, Meta, Pat, PatType, Type, TypeReference, ext::IdentExt, spanned::Spanned,
};

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
    /// Whether it is marked `#[secret]`.
    pub(crate) secret: bool,
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

impl Kind {
    pub(crate) fn is_context(self) -> bool {
        self == Self::Context
    }

    pub(crate) fn is_data(self) -> bool {
        matches!(self, Self::DataRef | Self::DataOwned)
    }
}

impl Param {
    /// `None`: no field of any payload could hold it.
    pub(super) fn check(
        place: usize,
        written: &PatType,
        generics: &Generics,
        mistakes: &mut Mistakes,
    ) -> Option<Self> {
        let mut param = Self {
            kind: Kind::Payload,
            name: format_ident!("arg{place}", span = written.pat.span()),
            pat: (*written.pat).clone(),
            ty: (*written.ty).clone(),
            lent: (*written.ty).clone(),
            secret: false,
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
        param.check_secret(&written.attrs, mistakes);
        fits.then_some(param)
    }

    /// A secret is a field that jobq writes and reads itself.
    fn check_secret(&mut self, attrs: &[Attribute], mistakes: &mut Mistakes) {
        if !self.secret {
            return;
        }
        if self.kind != Kind::Payload {
            let marked = attrs.iter().find(|attr| attr.path().is_ident("secret"));
            let text = "only payload parameters are stored; what a worker lends is shown to nobody: take `#[secret]` away";
            mistakes.at(marked, text);
        }
        for word in ["with", "serialize_with", "deserialize_with", "flatten"] {
            if let Some(attr) = self.serde.iter().find(|attr| names(attr, word)) {
                let text = format!(
                    "a secret is written and read by jobq, so it can't have serde's `{word}`; \
                     put that on a field of a type of your own, and take the type as the secret"
                );
                mistakes.at(attr, text);
                // Written as a plain field, so that this is all that is told.
                self.secret = false;
            }
        }
    }

    /// What serde is told of a secret's field beside what the user wrote. An `Option` that is missing is `None`, which
    /// serde knows of fields that it reads by itself.
    pub(crate) fn serde_of_secret(&self, module: &str) -> Option<TokenStream> {
        let is_option = last_name(&self.ty).is_some_and(|name| name == "Option");
        let has_default = self.serde.iter().any(|attr| names(attr, "default"));
        let default = (is_option && !has_default).then(|| quote!(default,));
        self.secret.then(|| quote!(#[serde(#default with = #module)]))
    }

    /// Sorts the attributes of a parameter; whether `#[data]` is among them.
    fn sort_attrs(&mut self, attrs: &[Attribute], mistakes: &mut Mistakes) -> bool {
        const KNOWN: [&str; 5] = ["data", "secret", "serde", "doc", "allow"];
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
                "secret" if self.secret => mistakes.at(attr, "`#[secret]` is given twice"),
                "secret" => {
                    self.secret = true;
                    if !matches!(attr.meta, Meta::Path(_)) {
                        mistakes.at(attr, "write `#[secret]` alone");
                    }
                }
                "cfg" | "cfg_attr" => {
                    mistakes.at(
                        attr,
                        "a parameter can't depend on `cfg`: each build would store another payload",
                    );
                }
                _ if is_lint(&name) => self.lint.push(attr.clone()),
                _ => {
                    let text = format!(
                        "unknown attribute of a parameter{}\nknown are `#[data]`, `#[secret]`, `#[serde(…)]`, doc comments and lint levels",
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

    /// `None`: a pattern stands in the name's place.
    pub(crate) fn written_name(&self) -> Option<String> {
        matches!(self.pat, Pat::Ident(_)).then(|| self.name.unraw().to_string())
    }

    /// Whether the worker keeps it, and lends it for the attempt.
    pub(crate) fn is_lent(&self) -> bool {
        matches!(self.kind, Kind::Context | Kind::DataRef)
    }
}

/// Whether a serde attribute has this word in its list.
fn names(attr: &Attribute, word: &str) -> bool {
    let Meta::List(list) = &attr.meta else { return false };
    list.tokens.clone().into_iter().any(|token| matches!(token, TokenTree::Ident(name) if name == word))
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
