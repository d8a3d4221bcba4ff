//! `label = "…"`, and the `key` of `unique(…)`: texts with the names of payload parameters in them.

use crate::{
    Mistakes, did_you_mean,
    item::{Item, Kind, Param},
    words,
};
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote_spanned;
use syn::{LitStr, ext::IdentExt};

/// The text as an expression over `self`. `what` it is, for people.
pub(crate) fn pattern_tokens(
    pattern: &LitStr,
    what: &str,
    item: &Item,
    private: &TokenStream,
    mistakes: &mut Mistakes,
) -> Option<TokenStream> {
    let (format, placeholders) = match read_pattern(&pattern.value()) {
        Ok(read) => read,
        Err(why) => {
            mistakes.at(pattern, why.replace("pattern", what));
            return None;
        }
    };
    let before = mistakes.count();
    let at = Span::call_site().located_at(pattern.span());
    let fields = placeholders.iter().filter_map(|name| {
        let param = item.params.iter().find(|param| param.name.unraw() == name);
        match param {
            Some(param) if param.secret => {
                mistakes.at(pattern, format!("`{{{name}}}` is a secret, and a {what} is shown to everybody"));
                None
            }
            Some(param) if param.kind == Kind::Payload => {
                let mut field = param.name.clone();
                field.set_span(at);
                Some(quote_spanned!(at=> self.#field))
            }
            Some(_) => {
                mistakes.at(
                    pattern,
                    format!(
                        "`{{{name}}}` is lent by the worker; a {what} is made of the payload, at the enqueue"
                    ),
                );
                None
            }
            None => {
                let known: Vec<_> = item.payload().filter_map(Param::written_name).collect();
                let known = known.iter().map(String::as_str);
                let meant = did_you_mean(name, known.clone());
                let list = match known.len() {
                    0 => "this job has no payload parameters".into(),
                    _ => format!("payload parameters: {}", words(known)),
                };
                mistakes.at(pattern, format!("no payload parameter `{name}` for this {what}{meant}\n{list}"));
                None
            }
        }
    });
    let fields: Vec<_> = fields.collect();
    let mut format = Literal::string(&format);
    format.set_span(at);
    (mistakes.count() == before).then(|| quote_spanned!(at=> #private::format!(#format #(, #fields)*)))
}

/// `"to {email}"` → the format string `"to {}"` and the names in its places; `{{` and `}}` are braces.
fn read_pattern(pattern: &str) -> Result<(String, Vec<String>), String> {
    let (mut format, mut names) = (String::new(), Vec::new());
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '{' | '}' if letters.next_if_eq(&letter).is_some() => format.extend([letter, letter]),
            '{' => {
                let mut name = String::new();
                loop {
                    match letters.next() {
                        Some('}') => break,
                        Some(letter) => name.push(letter),
                        None => {
                            return Err(
                                "this pattern has a `{` without its `}`; `{{` stands for a brace".into()
                            );
                        }
                    }
                }
                if syn::parse_str::<Ident>(&name).is_err()
                    && syn::parse_str::<Ident>(&format!("r#{name}")).is_err()
                {
                    return Err(format!(
                        "`{{{name}}}` names no parameter; `{{{{` and `}}}}` stand for braces"
                    ));
                }
                format.push_str("{}");
                names.push(name);
            }
            '}' => return Err("this pattern has a `}` without its `{`; `}}` stands for a brace".into()),
            letter => format.push(letter),
        }
    }
    Ok((format, names))
}

#[cfg(test)]
mod tests {
    use super::read_pattern;

    #[test]
    fn a_label_is_text_names_and_braces() {
        let read = |label| read_pattern(label).map(|(format, names)| (format, names.join(" ")));
        let is = |format: &str, names: &str| Ok((format.to_owned(), names.to_owned()));
        assert_eq!(read(""), is("", ""));
        assert_eq!(read("to {email} of {user_id}"), is("to {} of {}", "email user_id"));
        assert_eq!(read("{{{a}}} {{b}}"), is("{{{}}} {{b}}", "a"));
        assert_eq!(read("{type}"), is("{}", "type"), "a raw name");
        for wrong in ["{", "}", "{a", "a}", "{}", "{a.b}", "{a:?}", "{0}", "{ a b }", "{a{b}}"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
