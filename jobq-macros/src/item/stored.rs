//! A parameter as rows hold it: its name and type, and whether it may be missing, as serde's attributes say.
//!
//! What serde does not understand it tells itself; here that is read over.

use super::{
    Param,
    attrs::doc_text,
    template::{placeholder, template},
    types::{last_name, shown},
};
use proc_macro2::TokenStream;
use syn::{
    LitStr, Meta, Token, Type,
    ext::IdentExt,
    meta::ParseNestedMeta,
    parse::{Parse, ParseStream, Parser},
    punctuated::Punctuated,
};

/// One field of a stored payload.
pub(crate) struct Field {
    /// The name in JSON.
    pub(crate) name: String,
    /// Other names that are read.
    pub(crate) aliases: Vec<String>,
    /// The type as it is written; with the function that reads it, where it has one of its own.
    pub(crate) ty: String,
    /// Whether a payload may lack it.
    pub(crate) optional: bool,
    /// Whether its own fields stand in its place.
    pub(crate) flatten: bool,
    /// Whether it is marked `#[secret]`.
    pub(crate) secret: bool,
    /// The doc comment.
    pub(crate) doc: String,
    /// A value to begin with, as JSON.
    pub(crate) template: String,
    /// The type, where serde's own reading of it is what reads the field.
    pub(crate) read_as: Option<Type>,
}

/// What `serde(…)` says of the whole payload.
#[derive(Default)]
pub(crate) struct Container {
    rename_all: Option<String>,
    default: bool,
    /// What makes the JSON another than an object of the fields.
    pub(crate) shape: String,
}

impl Container {
    pub(crate) fn read(serde: Option<&TokenStream>) -> Self {
        let mut container = Self::default();
        let parse = Punctuated::<Meta, Token![,]>::parse_terminated;
        let options = serde.and_then(|tokens| parse.parse2(tokens.clone()).ok()).unwrap_or_default();
        let mut shape = Vec::new();
        for option in &options {
            let word = option.path().get_ident().map(ToString::to_string).unwrap_or_default();
            match word.as_str() {
                "default" => container.default = true,
                "rename_all" => container.rename_all = names(option).into_iter().next(),
                "transparent" => shape.push(word),
                "tag" | "from" | "try_from" | "into" => {
                    shape.push(format!("{word} {}", names(option).join(" ")));
                }
                _ => {}
            }
        }
        container.shape = shape.join(", ");
        container
    }

    /// `None`: the field is not stored.
    pub(crate) fn field(&self, param: &Param) -> Option<Field> {
        let own_name = param.name.unraw().to_string();
        let mut field = Field {
            name: rename(self.rename_all.as_deref(), &own_name),
            aliases: Vec::new(),
            ty: shown(&param.ty),
            optional: self.default,
            flatten: false,
            secret: param.secret,
            doc: doc_text(&param.doc),
            template: template(&param.ty),
            read_as: Some(param.ty.clone()),
        };
        let (mut skipped, mut read_by, mut defaults) = (false, None, false);
        for attr in &param.serde {
            let mut read_one = |option: ParseNestedMeta<'_>| {
                let word = option.path.get_ident().map(ToString::to_string).unwrap_or_default();
                let names = values(option.input)?;
                match (word.as_str(), names.first()) {
                    ("skip", _) => skipped = true,
                    ("default", _) => defaults = true,
                    ("flatten", _) => field.flatten = true,
                    ("alias", Some(name)) => field.aliases.push(name.clone()),
                    ("rename", Some(name)) => {
                        field.name.clone_from(name);
                        field.aliases.extend(names.into_iter().skip(1));
                    }
                    ("with" | "deserialize_with", Some(path)) => read_by = Some(path.clone()),
                    _ => {}
                }
                Ok(())
            };
            let _told_by_serde = attr.parse_nested_meta(&mut read_one);
        }
        // serde takes a missing `Option` for `None`, unless something else reads it.
        field.optional |=
            defaults || (read_by.is_none() && last_name(&param.ty).is_some_and(|name| name == "Option"));
        if let Some(path) = read_by {
            field.ty = format!("{} with {path}", field.ty);
            field.template = placeholder(&field.ty);
            field.read_as = None;
        }
        (!skipped).then_some(field)
    }
}

/// The texts of `word = "…"` or `word(serialize = "…", deserialize = "…")`.
fn names(option: &Meta) -> Vec<String> {
    let tokens = match option {
        Meta::Path(_) => return Vec::new(),
        Meta::NameValue(pair) => {
            let value = &pair.value;
            quote::quote!(= #value)
        }
        Meta::List(list) => {
            let tokens = &list.tokens;
            quote::quote!((#tokens))
        }
    };
    values.parse2(tokens).unwrap_or_default()
}

/// The same for what stands after the word; whatever else is read over.
fn values(input: ParseStream<'_>) -> syn::Result<Vec<String>> {
    if input.peek(Token![=]) {
        input.parse::<Token![=]>()?;
        return Ok(vec![input.parse::<LitStr>()?.value()]);
    }
    if !input.peek(syn::token::Paren) {
        return Ok(Vec::new());
    }
    let within;
    syn::parenthesized!(within in input);
    let pairs = Punctuated::<Text, Token![,]>::parse_terminated(&within)?;
    Ok(pairs.into_iter().map(|Text(text)| text).collect())
}

/// `serialize = "…"`
struct Text(String);

impl Parse for Text {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        input.parse::<syn::Ident>()?;
        input.parse::<Token![=]>()?;
        Ok(Self(input.parse::<LitStr>()?.value()))
    }
}

/// A field's name under `rename_all`, as serde makes it of a name with underscores.
fn rename(rule: Option<&str>, name: &str) -> String {
    let pascal = || -> String {
        name.split('_')
            .flat_map(|word| {
                let mut letters = word.chars();
                letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters)
            })
            .collect()
    };
    match rule.unwrap_or_default() {
        "UPPERCASE" | "SCREAMING_SNAKE_CASE" => name.to_ascii_uppercase(),
        "PascalCase" => pascal(),
        "camelCase" => {
            let pascal = pascal();
            pascal[..1].to_ascii_lowercase() + &pascal[1..]
        }
        "kebab-case" => name.replace('_', "-"),
        "SCREAMING-KEBAB-CASE" => name.to_ascii_uppercase().replace('_', "-"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Mistakes,
        item::{Function, Item},
    };

    fn fields(serde: &str, function: &str) -> Vec<String> {
        let function: Function = syn::parse_str(function).unwrap();
        let item = Item::check(function, false, &mut Mistakes::default()).unwrap();
        let serde: TokenStream = serde.parse().unwrap();
        let container = Container::read(Some(&serde));
        let shown = |Field { name, aliases, ty, optional, flatten, .. }: Field| {
            let aliases: String = aliases.iter().map(|alias| format!("|{alias}")).collect();
            let marks = format!("{}{}", if optional { "?" } else { "" }, if flatten { " .." } else { "" });
            format!("{name}{aliases}{marks}: {ty}")
        };
        item.payload().filter_map(|param| container.field(param)).map(shown).collect()
    }

    #[test]
    fn fields_are_named_as_serde_names_them() {
        let function = "async fn f(user_id: u64, r#type: Vec<Option<u8>>, #[serde(rename = \"W\")] wide: std::option::Option<(u8, String)>) {}";
        let rest = ["type: Vec<Option<u8>>", "W?: std::option::Option<(u8, String)>"];
        assert_eq!(fields("", function), ["user_id: u64", rest[0], rest[1]]);
        for (rule, name) in [
            ("lowercase", "user_id"),
            ("UPPERCASE", "USER_ID"),
            ("PascalCase", "UserId"),
            ("camelCase", "userId"),
            ("snake_case", "user_id"),
            ("SCREAMING_SNAKE_CASE", "USER_ID"),
            ("kebab-case", "user-id"),
            ("SCREAMING-KEBAB-CASE", "USER-ID"),
        ] {
            let named = fields(&format!("deny_unknown_fields, rename_all = {rule:?}"), function);
            assert_eq!(named[0], format!("{name}: u64"), "{rule}");
            assert_eq!(named[2], rest[1], "{rule}");
        }
        assert_eq!(fields("rename_all(serialize = \"UPPERCASE\")", "async fn f(a: u8) {}"), ["A: u8"]);
    }

    #[test]
    fn what_may_be_missing_is_optional() {
        let function = "async fn f(
            a: u8,
            #[serde(default)] b: u8,
            #[serde(default = \"five\", alias = \"sea\", alias = \"see\")] c: u8,
            #[serde(skip)] d: u8,
            #[serde(flatten)] e: Rest,
            #[serde(with = \"hex\")] f: Option<u8>,
            #[serde(skip_serializing_if = \"Option::is_none\")] g: Option<u8>,
            #[serde(rename(serialize = \"x\", deserialize = \"y\"))] h: u8,
        ) {}";
        let expected = [
            "a: u8",
            "b?: u8",
            "c|sea|see?: u8",
            "e ..: Rest",
            "f: Option<u8> with hex",
            "g?: Option<u8>",
            "x|y: u8",
        ];
        assert_eq!(fields("", function), expected);
        assert_eq!(fields("default", "async fn f(a: u8) {}"), ["a?: u8"]);
    }

    #[test]
    fn what_is_no_object_has_a_shape() {
        let shape = |serde: &str| Container::read(Some(&serde.parse().unwrap())).shape;
        assert_eq!(shape("rename_all = \"camelCase\", deny_unknown_fields"), "");
        assert_eq!(shape("transparent"), "transparent");
        assert_eq!(shape("into = \"A\", try_from = \"B\""), "into A, try_from B");
    }
}
