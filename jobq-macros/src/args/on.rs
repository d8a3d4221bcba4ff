//! `on = …` and `on(…)`: the events that a job follows from, in each of their forms.

use super::value::{group, wanted};
use proc_macro2::{Delimiter, TokenStream};
use quote::ToTokens;
use syn::{
    Ident, Path, Result, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
};

/// One event that a job follows from.
pub(crate) struct On {
    pub(crate) event: Path,
    /// The function from the event to payloads; `None`: by `From`.
    pub(crate) with: Option<Path>,
}

const PLAIN: &str = "on = UserRegistered";
const MAPPED: &str = "on(UserRegistered, with = welcome)";

impl On {
    /// Reads what stands after the word `on`.
    pub(super) fn read(word: &Ident, input: ParseStream, all: &mut Vec<Self>) -> Result<()> {
        let on = if let Some(within) = group(input, Delimiter::Parenthesis) {
            mapped.parse2(within).map_err(|mistake| at_least_the_form(word, mistake))?
        } else if input.parse::<Option<Token![=]>>()?.is_some() && !input.is_empty() {
            let event = path(input, PLAIN)?;
            Self { event, with: None }
        } else {
            let _: TokenStream = input.parse()?;
            return Err(wanted(word, &format!("{PLAIN}` or `{MAPPED}")));
        };
        if all.iter().any(|other| other.is_as(&on)) {
            let text = "this event is given twice, and the job would be enqueued twice for it";
            return Err(syn::Error::new_spanned(&on.event, text));
        }
        all.push(on);
        Ok(())
    }

    fn is_as(&self, other: &Self) -> bool {
        let text = |path: &Path| path.to_token_stream().to_string();
        text(&self.event) == text(&other.event)
            && self.with.as_ref().map(text) == other.with.as_ref().map(text)
    }
}

/// `UserRegistered, with = path`
fn mapped(input: ParseStream) -> Result<On> {
    let event = path(input, "UserRegistered")?;
    if input.parse::<Option<Token![,]>>()?.is_none() || input.is_empty() {
        return Ok(On { event, with: None });
    }
    let word: Ident = input.call(Ident::parse_any)?;
    if word != "with" {
        let _: TokenStream = input.parse()?;
        return Err(wanted(&word, MAPPED));
    }
    input.parse::<Token![=]>().map_err(|_| wanted(&word, MAPPED))?;
    let with = path(input, "with = welcome")?;
    input.parse::<Option<Token![,]>>()?;
    if input.is_empty() {
        return Ok(On { event, with: Some(with) });
    }
    let rest: TokenStream = input.parse()?;
    Err(wanted(rest, MAPPED))
}

/// A path, or an error at what stands in its place; where nothing does, the caller says what was wanted.
fn path(input: ParseStream, example: &str) -> Result<Path> {
    if input.is_empty() {
        return Err(input.error(""));
    }
    let ahead = input.fork();
    if Path::parse_mod_style(&ahead).is_ok() && (ahead.is_empty() || ahead.peek(Token![,])) {
        return Path::parse_mod_style(input);
    }
    let written: TokenStream = input.parse()?;
    let text = match example {
        "with = welcome" => {
            "expected the path of a `fn(&UserRegistered) -> impl IntoIterator<Item = Payload>`: `with = welcome`".into()
        }
        _ => format!("expected the name of an event: `{example}`"),
    };
    Err(syn::Error::new_spanned(written, text))
}

fn at_least_the_form(word: &Ident, mistake: syn::Error) -> syn::Error {
    if mistake.to_string().contains('`') { mistake } else { wanted(word, MAPPED) }
}
