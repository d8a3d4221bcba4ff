//! `unique(…)`: what makes two jobs one, how long, and what becomes of the second.

use super::value::{FOR_EVER, duration, group, text, wanted};
use crate::{did_you_mean, words};
use proc_macro2::{Delimiter, Span, TokenStream};
use std::time::Duration;
use syn::{
    Ident, LitStr, Result, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
    punctuated::Punctuated,
};

/// How a job type's jobs are unique.
#[derive(Default)]
pub(crate) struct Unique {
    pub(crate) key: Option<LitStr>,
    pub(crate) within: Option<Duration>,
    pub(crate) debounce: Option<Duration>,
    /// A variant of `Until`.
    pub(crate) until: Option<&'static str>,
    /// Variants of `JobState`.
    pub(crate) states: Option<Vec<&'static str>>,
    /// A variant of `KeyScope`.
    pub(crate) scope: Option<&'static str>,
    pub(crate) on_conflict: Option<OnConflict>,
}

pub(crate) enum OnConflict {
    Keep,
    Reject,
    /// Everything.
    Replace,
    /// Variants of `JobField`.
    ReplaceSome(Vec<&'static str>),
}

/// The settings, each with an example.
const SETTINGS: [(&str, &str); 7] = [
    ("key", "key = \"{user_id}\""),
    ("within", "within = \"1h\""),
    ("until", "until = finished"),
    ("states", "states = [running, dead]"),
    ("scope", "scope = queue"),
    ("on_conflict", "on_conflict = replace(payload, run_at)"),
    ("debounce", "debounce = \"5s\""),
];

/// What people who come from other queues write.
const ELSEWHERE: [(&str, &str); 8] = [
    ("period", "within"),
    ("ttl", "within"),
    ("window", "within"),
    ("for", "within"),
    ("by", "key"),
    ("fields", "key"),
    ("replace", "on_conflict"),
    ("conflict", "on_conflict"),
];

/// Words and the variants that they stand for.
type Words = &'static [(&'static str, &'static str)];

const UNTIL: Words =
    &[("started", "Started"), ("finished", "Finished"), ("succeeded", "Succeeded"), ("deleted", "Deleted")];
const SCOPES: Words = &[("job_type", "JobType"), ("queue", "Queue"), ("global", "Global")];
const STATES: Words = &[
    ("scheduled", "Scheduled"),
    ("pending", "Pending"),
    ("running", "Running"),
    ("completed", "Completed"),
    ("dead", "Dead"),
    ("cancelled", "Cancelled"),
];
const FIELDS: Words = &[
    ("payload", "Payload"),
    ("run_at", "RunAt"),
    ("priority", "Priority"),
    ("queue", "Queue"),
    ("max_attempts", "MaxAttempts"),
    ("label", "Label"),
    ("timeout", "Timeout"),
    ("backoff", "Backoff"),
    ("retain", "Retain"),
];

impl Unique {
    /// What follows the word `unique`.
    pub(super) fn read(word: &Ident, example: &str, input: ParseStream) -> Result<Self> {
        if input.is_empty() {
            return Ok(Self::default());
        }
        let settings = group(input, Delimiter::Parenthesis).ok_or_else(|| {
            let _: Result<TokenStream> = input.parse();
            wanted(word, example)
        })?;
        (|input: ParseStream| Self::settings(input)).parse2(settings)
    }

    fn settings(input: ParseStream) -> Result<Self> {
        let mut unique = Self::default();
        let mut seen: Vec<(String, Span)> = Vec::new();
        while !input.is_empty() {
            let word: Ident = input.call(Ident::parse_any)?;
            let name = word.to_string();
            let Some((_, example)) = SETTINGS.iter().find(|(known, _)| *known == name) else {
                return Err(unknown(&word, &name));
            };
            input.parse::<Token![=]>().map_err(|_| wanted(&word, example))?;
            if seen.iter().any(|(other, _)| *other == name) {
                return Err(syn::Error::new(word.span(), format!("setting `{name}` is given twice")));
            }
            unique.read_one(&name, example, input)?;
            seen.push((name, word.span()));
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        exclusive(&seen)?;
        Ok(unique)
    }

    fn read_one(&mut self, name: &str, example: &str, input: ParseStream) -> Result<()> {
        match name {
            "key" => self.key = Some(key(input, example)?),
            "within" => self.within = Some(window(input, example)?),
            "debounce" => self.debounce = Some(quiet(input, example)?),
            "until" => self.until = Some(one_of(UNTIL, input, example)?),
            "states" => self.states = Some(some_of(STATES, Delimiter::Bracket, input, example)?),
            "scope" => self.scope = Some(one_of(SCOPES, input, example)?),
            _ => self.on_conflict = Some(on_conflict(input, example)?),
        }
        Ok(())
    }
}

fn unknown(word: &Ident, name: &str) -> syn::Error {
    let known = SETTINGS.map(|(known, _)| known);
    let meant = ELSEWHERE
        .iter()
        .find(|(theirs, _)| *theirs == name)
        .map(|(_, ours)| format!("; did you mean `{ours}`?"))
        .unwrap_or_else(|| did_you_mean(name, known));
    syn::Error::new(word.span(), format!("unknown setting `{name}`{meant}\nknown settings: {}", words(known)))
}

/// Settings that say the same thing in two ways.
fn exclusive(seen: &[(String, Span)]) -> Result<()> {
    const PAIRS: [(&str, &str, &str); 5] = [
        ("debounce", "within", "a window would keep out what comes while the job runs; leave `within` out"),
        ("until", "states", "both say in which states the key is held; leave one out"),
        ("debounce", "until", "a debounce holds the key until the job has started; leave `until` out"),
        ("debounce", "states", "a debounce holds the key until the job has started; leave `states` out"),
        ("debounce", "on_conflict", "a debounce replaces the payload and `run_at`; leave `on_conflict` out"),
    ];
    let at = |name: &str| seen.iter().position(|(other, _)| other == name);
    for (one, other, why) in PAIRS {
        if let (Some(first), Some(second)) = (at(one), at(other)) {
            let (name, place) = &seen[first.max(second)];
            let beside = if name == one { other } else { one };
            return Err(syn::Error::new(*place, format!("`{name}` beside `{beside}`: {why}")));
        }
    }
    Ok(())
}

fn key(input: ParseStream, example: &str) -> Result<LitStr> {
    let key = text(input, example)?;
    match key.value().is_empty() {
        true => Err(syn::Error::new(
            key.span(),
            "an empty key would be shared by all jobs; leave `key` out for one made of the whole payload",
        )),
        false => Ok(key),
    }
}

fn window(input: ParseStream, example: &str) -> Result<Duration> {
    let written = text(input, example)?;
    if written.value() == "forever" {
        return Ok(FOR_EVER);
    }
    match duration(&written)? {
        Duration::ZERO => Err(syn::Error::new(
            written.span(),
            "a window of zero holds no key; leave `within` out for a key that is held by states alone",
        )),
        window => Ok(window),
    }
}

fn quiet(input: ParseStream, example: &str) -> Result<Duration> {
    let written = text(input, example)?;
    match duration(&written)? {
        Duration::ZERO => Err(syn::Error::new(
            written.span(),
            "a debounce of zero waits for nothing; `on_conflict = replace(payload)` lets the last payload run without a wait",
        )),
        quiet => Ok(quiet),
    }
}

fn on_conflict(input: ParseStream, example: &str) -> Result<OnConflict> {
    const KNOWN: [&str; 3] = ["keep", "replace", "reject"];
    let word: Ident = input.call(Ident::parse_any).map_err(|error| wanted_at(error, example))?;
    match word.to_string().as_str() {
        "keep" => Ok(OnConflict::Keep),
        "reject" => Ok(OnConflict::Reject),
        "replace" if input.peek(syn::token::Paren) => {
            some_of(FIELDS, Delimiter::Parenthesis, input, example).map(OnConflict::ReplaceSome)
        }
        "replace" => Ok(OnConflict::Replace),
        other => {
            let meant = did_you_mean(other, KNOWN);
            let text = format!("unknown word `{other}`{meant}\nknown words: {}", words(KNOWN));
            Err(syn::Error::new(word.span(), text))
        }
    }
}

fn wanted_at(error: syn::Error, example: &str) -> syn::Error {
    syn::Error::new(error.span(), format!("write `{example}`"))
}

/// One of these words, as its variant.
fn one_of(known: Words, input: ParseStream, example: &str) -> Result<&'static str> {
    let word: Ident = input.call(Ident::parse_any).map_err(|error| wanted_at(error, example))?;
    variant(known, &word)
}

/// One or more of these words, within brackets.
fn some_of(known: Words, within: Delimiter, input: ParseStream, example: &str) -> Result<Vec<&'static str>> {
    let at = input.span();
    let list = group(input, within).ok_or_else(|| {
        let _: Result<TokenStream> = input.parse();
        syn::Error::new(at, format!("write `{example}`"))
    })?;
    let read =
        |input: ParseStream| Punctuated::<Ident, Token![,]>::parse_terminated_with(input, Ident::parse_any);
    let list = read.parse2(list)?;
    if list.is_empty() {
        return Err(syn::Error::new(at, format!("name one or more: `{example}`")));
    }
    list.iter().map(|word| variant(known, word)).collect()
}

fn variant(known: Words, word: &Ident) -> Result<&'static str> {
    let name = word.to_string();
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    known.iter().find(|(known, _)| *known == name).map(|(_, variant)| *variant).ok_or_else(|| {
        let meant = did_you_mean(&name, names.iter().copied());
        let text = format!("unknown word `{name}`{meant}\nknown words: {}", words(names.iter().copied()));
        syn::Error::new(word.span(), text)
    })
}
