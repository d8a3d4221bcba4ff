//! `backoff = …`: the wait between attempts, in each of its forms.

use super::value::{group, number, spanned_duration, wanted};
use crate::{did_you_mean, words};
use proc_macro2::{Delimiter, Span, TokenStream};
use std::time::Duration;
use syn::{
    Ident, Path, Result, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
};

/// The wait between attempts.
pub(crate) enum Backoff {
    Exponential { base: Duration, factor: f64, max: Duration, jitter: f64 },
    Fixed { delay: Duration, jitter: f64 },
    DoublingToAMinute,
    Own(Path),
}

const BACKOFFS: &str = "`exponential(base = \"10s\", factor = 2, max = \"1h\", jitter = 0.15)`, `fixed(\"30s\")`, \
                        `doubling_to_a_minute`, or the path of a `fn(u32, &JobError) -> Duration`";

impl Backoff {
    pub(super) fn read(input: ParseStream) -> Result<Self> {
        let path: Path = match Path::parse_mod_style(&input.fork()) {
            Ok(_) => Path::parse_mod_style(input)?,
            Err(_) => {
                let written: TokenStream = input.parse()?;
                return Err(syn::Error::new_spanned(written, format!("expected {BACKOFFS}")));
            }
        };
        let settings = group(input, Delimiter::Parenthesis);
        let word = path.get_ident().map(Ident::to_string);
        match (word.as_deref(), settings) {
            (Some("exponential"), settings) => exponential.parse2(settings.unwrap_or_default()),
            (Some("fixed"), Some(settings)) if !settings.is_empty() => fixed.parse2(settings),
            (Some("fixed"), _) => Err(syn::Error::new_spanned(path, "write `fixed(\"30s\")`")),
            (Some("doubling_to_a_minute"), None) => Ok(Self::DoublingToAMinute),
            (_, None) => Ok(Self::Own(path)),
            (word, Some(_)) => {
                let meant = did_you_mean(word.unwrap_or_default(), ["exponential", "fixed"]);
                Err(syn::Error::new_spanned(path, format!("unknown backoff{meant}\nexpected {BACKOFFS}")))
            }
        }
    }
}

fn exponential(input: ParseStream) -> Result<Backoff> {
    let (mut base, mut factor, mut max, mut jitter) = (None, None, None, None);
    while !input.is_empty() {
        let word: Ident = input.call(Ident::parse_any)?;
        input.parse::<Token![=]>().map_err(|_| wanted(&word, "base = \"10s\""))?;
        let twice = match word.to_string().as_str() {
            "base" => base.replace(spanned_duration(input)?).is_some(),
            "factor" => factor.replace(number(input, 1.0, 1000.0)?).is_some(),
            "max" => max.replace(spanned_duration(input)?).is_some(),
            "jitter" => jitter.replace(number(input, 0.0, 1.0)?).is_some(),
            other => {
                let known = ["base", "factor", "max", "jitter"];
                let text = format!(
                    "unknown setting `{other}`{}\nknown settings: {}",
                    did_you_mean(other, known),
                    words(known)
                );
                return Err(syn::Error::new(word.span(), text));
            }
        };
        if twice {
            return Err(syn::Error::new(word.span(), format!("setting `{word}` is given twice")));
        }
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    let (base, at) = base.unwrap_or((Duration::from_secs(10), Span::call_site()));
    let (max, max_at) = max.unwrap_or((Duration::from_secs(3600).max(base), at));
    if base > max {
        return Err(syn::Error::new(max_at, "`max` is shorter than `base`"));
    }
    Ok(Backoff::Exponential { base, factor: factor.unwrap_or(2.0), max, jitter: jitter.unwrap_or(0.15) })
}

fn fixed(input: ParseStream) -> Result<Backoff> {
    let (delay, _) = spanned_duration(input)?;
    let mut jitter = 0.0;
    if input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
        let word: Ident = input.call(Ident::parse_any)?;
        if word != "jitter" {
            return Err(syn::Error::new(
                word.span(),
                "the only setting here is `jitter`: `fixed(\"30s\", jitter = 0.1)`",
            ));
        }
        input.parse::<Token![=]>()?;
        jitter = number(input, 0.0, 1.0)?;
    }
    Ok(Backoff::Fixed { delay, jitter })
}
