//! A value to begin with for each type, as JSON, by what is written: zero, empty, or the type's name in its place.

use super::types::{bare, shown};
use syn::{Expr, ExprLit, GenericArgument, Lit, PathArguments, Type, TypePath};

/// The longest array that is written out.
const WRITTEN_OUT: usize = 32;

/// The JSON of a value of this type.
pub(super) fn template(ty: &Type) -> String {
    match bare(ty) {
        Type::Tuple(tuple) if tuple.elems.is_empty() => "null".into(),
        Type::Tuple(tuple) => list(tuple.elems.iter().map(template)),
        Type::Array(array) => match length(&array.len) {
            Some(length) => list(std::iter::repeat_n(template(&array.elem), length)),
            None => placeholder(&shown(ty)),
        },
        Type::Path(path) => of_path(path).unwrap_or_else(|| placeholder(&shown(ty))),
        ty => placeholder(&shown(ty)),
    }
}

/// What stands where only people know what to write.
pub(super) fn placeholder(ty: &str) -> String {
    let escaped = ty.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"<{escaped}>\"")
}

fn of_path(path: &TypePath) -> Option<String> {
    let last = path.path.segments.last()?;
    let name = last.ident.to_string();
    let json = match name.as_str() {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => {
            "0"
        }
        "f32" | "f64" => "0.0",
        "bool" => "false",
        "String" | "PathBuf" | "str" | "Path" => "\"\"",
        "char" => "\" \"",
        "Option" | "Value" => "null",
        "Vec" | "VecDeque" | "HashSet" | "BTreeSet" | "LinkedList" | "BinaryHeap" => "[]",
        "HashMap" | "BTreeMap" | "Map" => "{}",
        "Duration" => "{\"secs\":0,\"nanos\":0}",
        "Uuid" => "\"00000000-0000-0000-0000-000000000000\"",
        "DateTime" => "\"1970-01-01T00:00:00Z\"",
        "NaiveDateTime" => "\"1970-01-01T00:00:00\"",
        "NaiveDate" => "\"1970-01-01\"",
        "NaiveTime" => "\"00:00:00\"",
        name if name.starts_with("NonZero") => "1",
        "Box" | "Arc" | "Rc" | "Cow" => return inner(&last.arguments).map(template),
        _ => return None,
    };
    Some(json.into())
}

/// The last type argument.
fn inner(arguments: &PathArguments) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return None };
    arguments.args.iter().rev().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

fn length(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(length), .. }) => length.base10_parse().ok(),
        _ => None,
    }
    .filter(|length| *length <= WRITTEN_OUT)
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_what_is_written() {
        for (ty, json) in [
            ("u64", "0"),
            ("std::primitive::bool", "false"),
            ("(u8, Option<String>, Box<str>)", "[0,null,\"\"]"),
            ("()", "null"),
            ("[u8; 3]", "[0,0,0]"),
            ("[u8; 33]", "\"<[u8; 33]>\""),
            ("std::collections::HashMap<String, u8>", "{}"),
            ("std::num::NonZeroU8", "1"),
            ("Cow<'static, str>", "\"\""),
            ("Money", "\"<Money>\""),
            ("shop::Money<u8>", "\"<shop::Money<u8>>\""),
        ] {
            assert_eq!(template(&syn::parse_str(ty).unwrap()), json, "{ty}");
        }
        assert_eq!(placeholder("u8 with \"hex\""), "\"<u8 with \\\"hex\\\">\"");
    }
}
