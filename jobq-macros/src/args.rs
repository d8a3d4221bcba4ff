//! The options of the attribute: each read alone, so that a mistake in one hides none in another.

mod backoff;
mod cron;
mod limit;
mod on;
mod unique;
mod value;

pub(crate) use backoff::Backoff;
pub(crate) use cron::{CatchUp, Cron};
pub(crate) use limit::{Limits, Rate};
pub(crate) use on::On;
pub(crate) use unique::{OnConflict, Unique};
pub(crate) use value::{check_name, duration_tokens, text};

use self::value::{FOR_EVER, duration, group, or_else_say, wanted, whole};
use crate::{Mistakes, did_you_mean, item::spaced, words};
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use std::time::Duration;
use syn::{
    Ident, LitStr, Path, Result, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
    punctuated::Punctuated,
};

/// What this version knows, each with an example for error messages.
const KNOWN: &[(&str, &str)] = &[
    ("payload", "payload = WelcomeMail"),
    ("type", "type = \"mail:welcome\""),
    ("aliases", "aliases = [\"old_name\"]"),
    ("queue", "queue = \"mail\""),
    ("priority", "priority = 5"),
    ("max_attempts", "max_attempts = 3"),
    ("timeout", "timeout = \"30s\""),
    ("backoff", "backoff = fixed(\"30s\")"),
    ("unique", "unique(key = \"{user_id}\", within = \"1h\")"),
    ("concurrency", "concurrency = 2"),
    ("concurrency_key", "concurrency_key = \"{tenant}\""),
    ("rate_limit", "rate_limit = \"100/1m\""),
    ("on_dead", "on_dead = tell_ops"),
    ("label", "label = \"Welcome mail to {email}\""),
    ("on", "on = UserRegistered"),
    ("cron", "cron = \"30 2 * * *\""),
    ("tz", "tz = \"Europe/Warsaw\""),
    ("catch_up", "catch_up = once"),
    ("overlap", "overlap = skip"),
    ("version", "version = 2"),
    ("upgrade", "upgrade = from_older"),
    ("retain", "retain = \"7d\""),
    ("serde", "serde(rename_all = \"camelCase\")"),
    ("blocking", "blocking"),
    ("crate", "crate = my_jobq"),
];

/// What people who come from other queues write.
const ELSEWHERE: &[(&str, &str)] = &[
    ("name", "type"),
    ("kind", "type"),
    ("job_type", "type"),
    ("retries", "max_attempts"),
    ("retry", "max_attempts"),
    ("max_retries", "max_attempts"),
    ("title", "label"),
    ("retention", "retain"),
    ("deadline", "timeout"),
    ("sync", "blocking"),
    ("event", "on"),
    ("subscribe", "on"),
    ("schedule", "cron"),
    ("every", "cron"),
    ("timezone", "tz"),
    ("time_zone", "tz"),
    ("on_failure", "on_dead"),
    ("limit", "concurrency"),
    ("max_concurrency", "concurrency"),
    ("throttle", "rate_limit"),
    ("rate", "rate_limit"),
    ("partition", "concurrency_key"),
    ("group", "concurrency_key"),
];

/// The options as written, each checked.
pub(crate) struct Options {
    /// The path of jobq.
    pub(crate) jobq: Path,
    pub(crate) payload: Option<Ident>,
    pub(crate) job_type: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) queue: Option<LitStr>,
    pub(crate) priority: Option<i16>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) timeout: Option<Timeout>,
    pub(crate) backoff: Option<Backoff>,
    pub(crate) unique: Option<Unique>,
    pub(crate) limits: Limits,
    pub(crate) on_dead: Option<Path>,
    pub(crate) label: Option<LitStr>,
    pub(crate) retain: Option<Duration>,
    pub(crate) on: Vec<On>,
    pub(crate) cron: Cron,
    /// Where a payload of an older version is made one of this.
    pub(crate) version: Option<u32>,
    pub(crate) upgrade: Option<Path>,
    pub(crate) serde: Option<TokenStream>,
    pub(crate) blocking: bool,
    /// Every option with the text of its value, for people.
    pub(crate) written: Vec<(String, String)>,
}

/// How long an attempt may take.
pub(crate) enum Timeout {
    After(Duration),
    Never,
}

impl Options {
    /// Reads the tokens between the parentheses of `#[job(…)]`; what can't be read is as if it were not there.
    pub(crate) fn read(tokens: TokenStream, mistakes: &mut Mistakes) -> Self {
        let mut options = Self {
            jobq: syn::parse_quote!(::jobq),
            payload: None,
            job_type: None,
            aliases: Vec::new(),
            queue: None,
            priority: None,
            max_attempts: None,
            timeout: None,
            backoff: None,
            unique: None,
            limits: Limits::default(),
            on_dead: None,
            label: None,
            retain: None,
            on: Vec::new(),
            cron: Cron::default(),
            version: None,
            upgrade: None,
            serde: None,
            blocking: false,
            written: Vec::new(),
        };
        let mut seen = Vec::new();
        for option in split_at_commas(tokens, mistakes) {
            let text = option.clone();
            let read = |input: ParseStream| options.read_one(input, &mut seen);
            match read.parse2(option) {
                Ok(()) => options.written.push(as_written(text)),
                Err(mistake) => mistakes.add(mistake),
            }
        }
        options.cron.check(seen.iter().any(|(name, _)| name == "cron"), mistakes);
        options.check_version(&seen, mistakes);
        options.limits.check(mistakes);
        options
    }

    /// Rows of all older versions may be waiting, and there are such only of a second version.
    fn check_version(&self, seen: &[(String, Span)], mistakes: &mut Mistakes) {
        let written = |word| seen.iter().find(|(name, _)| name == word).map(|(_, span)| *span);
        match (written("version"), written("upgrade")) {
            (None, Some(upgrade)) => mistakes.say(
                upgrade,
                "`upgrade` makes payloads of older versions ones of this: say which one it is with `version = 2`",
            ),
            (Some(_), Some(upgrade)) if self.version == Some(1) => mistakes.say(
                upgrade,
                "there is nothing older than version 1: take `upgrade` away, or write `version = 2`",
            ),
            (Some(version), None) if self.version.is_some_and(|version| version > 1) => mistakes.say(
                version,
                "jobs of older versions may be waiting: say how their payloads become this one with `upgrade = path`, a \
                 `fn(stored: u32, payload: serde_json::Value) -> Result<serde_json::Value, E>`",
            ),
            _ => {}
        }
    }

    fn read_one(&mut self, input: ParseStream, seen: &mut Vec<(String, Span)>) -> Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error(format!("expected an option, such as `{}`", KNOWN[5].1)));
        }
        let word = Ident::parse_any(input)?;
        let name = word.to_string();
        let Some((_, example)) = KNOWN.iter().find(|(known, _)| *known == name) else {
            skip(input);
            return Err(unknown(&word, &name));
        };
        if seen.iter().any(|(seen, _)| *seen == name) && name != "on" {
            skip(input);
            return Err(syn::Error::new(word.span(), format!("option `{name}` is given twice")));
        }
        seen.push((name.clone(), word.span()));
        self.read_value(&name, example, &word, input)?;
        if input.is_empty() {
            return Ok(());
        }
        let mistake = input
            .error(format!("unexpected after `{name}`; options are separated by commas: `{example}, …`"));
        skip(input);
        Err(mistake)
    }

    fn read_value(&mut self, name: &str, example: &str, word: &Ident, input: ParseStream) -> Result<()> {
        match name {
            "blocking" => {
                self.blocking = true;
                return Ok(());
            }
            "unique" => {
                self.unique = Some(Unique::read(word, example, input)?);
                return Ok(());
            }
            "serde" => {
                self.serde = Some(group(input, Delimiter::Parenthesis).ok_or_else(|| wanted(word, example))?);
                return Ok(());
            }
            "concurrency" | "rate_limit" => return self.limits.read(word, example, input),
            "on" => return On::read(word, input, &mut self.on),
            _ => {}
        }
        if input.parse::<Option<Token![=]>>()?.is_none() || input.is_empty() {
            skip(input);
            return Err(wanted(word, example));
        }
        match name {
            "payload" => self.payload = Some(or_else_say(input, example, |input| input.parse())?),
            "type" => self.job_type = Some(job_name(input, example)?),
            "aliases" => self.aliases = aliases(word, example, input)?,
            "queue" => self.queue = Some(job_name(input, example)?),
            "priority" => {
                self.priority = Some(whole(input, example, i16::MIN.into(), i16::MAX.into())? as i16)
            }
            "max_attempts" => self.max_attempts = Some(max_attempts(input, example)?),
            "timeout" => self.timeout = Some(timeout(input, example)?),
            "backoff" => self.backoff = Some(Backoff::read(input)?),
            "on_dead" => self.on_dead = Some(or_else_say(input, example, Path::parse_mod_style)?),
            "concurrency_key" => self.limits.read_key(example, input)?,
            "label" => self.label = Some(text(input, example)?),
            "cron" | "tz" | "catch_up" | "overlap" => self.cron.read(name, word, example, input)?,
            "retain" => self.retain = Some(retain(input, example)?),
            "version" => self.version = Some(version(input, example)?),
            "upgrade" => self.upgrade = Some(upgrade(input)?),
            _ => self.jobq = crate_path(input, example)?,
        }
        Ok(())
    }
}

/// The word and the text of its value.
fn as_written(option: TokenStream) -> (String, String) {
    let mut tokens = option.into_iter().peekable();
    let word = tokens.next().map(|word| word.to_string()).unwrap_or_default();
    let is_equals = |token: &TokenTree| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '=');
    tokens.next_if(is_equals);
    (word, spaced(tokens.collect()))
}

/// The options, one stream each. A comma within a group belongs to that group.
fn split_at_commas(tokens: TokenStream, mistakes: &mut Mistakes) -> Vec<TokenStream> {
    let mut options = vec![TokenStream::new()];
    for token in tokens {
        match token {
            TokenTree::Punct(comma) if comma.as_char() == ',' => {
                if options.last().is_some_and(TokenStream::is_empty) {
                    mistakes.say(comma.span(), "expected an option before this comma");
                } else {
                    options.push(TokenStream::new());
                }
            }
            token => options.last_mut().into_iter().for_each(|option| option.extend([token.clone()])),
        }
    }
    options.retain(|option| !option.is_empty());
    options
}

/// Reads over the rest: it is known to be of no use, and not a second mistake.
fn skip(input: ParseStream) {
    let _: Result<TokenStream> = input.parse();
}

fn unknown(word: &Ident, name: &str) -> syn::Error {
    let known: Vec<&str> = KNOWN.iter().map(|(known, _)| *known).collect();
    let meant = ELSEWHERE
        .iter()
        .find(|(theirs, _)| *theirs == name)
        .map(|(_, ours)| format!("; did you mean `{ours}`?"))
        .unwrap_or_else(|| did_you_mean(name, known.iter().copied()));
    syn::Error::new(word.span(), format!("unknown option `{name}`{meant}\nknown options: {}", words(known)))
}

/// A name that rows carry: a job type or a queue.
fn job_name(input: ParseStream, example: &str) -> Result<LitStr> {
    let name = text(input, example)?;
    check_name(&name.value()).map_err(|why| syn::Error::new(name.span(), why))?;
    Ok(name)
}

fn aliases(word: &Ident, example: &str, input: ParseStream) -> Result<Vec<LitStr>> {
    let list = group(input, Delimiter::Bracket).ok_or_else(|| {
        skip(input);
        wanted(word, example)
    })?;
    let names = Punctuated::<LitStr, Token![,]>::parse_terminated.parse2(list)?;
    for name in &names {
        check_name(&name.value()).map_err(|why| syn::Error::new(name.span(), why))?;
    }
    Ok(names.into_iter().collect())
}

fn max_attempts(input: ParseStream, example: &str) -> Result<u32> {
    let at = input.span();
    match whole(input, example, 0, u32::MAX.into())? {
        0 => Err(syn::Error::new(
            at,
            "a job with 0 attempts would never run; `max_attempts = 1` runs once and never again",
        )),
        number => Ok(number as u32),
    }
}

fn version(input: ParseStream, example: &str) -> Result<u32> {
    let at = input.span();
    match whole(input, example, 0, u32::MAX.into())? {
        0 => Err(syn::Error::new(
            at,
            "versions begin at 1, which is what a job without `version` has; the next one is `version = 2`",
        )),
        number => Ok(number as u32),
    }
}

fn upgrade(input: ParseStream) -> Result<Path> {
    or_else_say(input, "upgrade = from_older", |input| {
        let path = Path::parse_mod_style(input)?;
        if input.is_empty() { Ok(path) } else { Err(input.error("")) }
    })
}

fn timeout(input: ParseStream, example: &str) -> Result<Timeout> {
    let written = text(input, example)?;
    if written.value() == "none" {
        return Ok(Timeout::Never);
    }
    match duration(&written)? {
        Duration::ZERO => {
            let text = "a time-out of zero would fail every attempt; `timeout = \"none\"` lets it take as long as it likes";
            Err(syn::Error::new(written.span(), text))
        }
        limit => Ok(Timeout::After(limit)),
    }
}

fn retain(input: ParseStream, example: &str) -> Result<Duration> {
    let written = text(input, example)?;
    if written.value() == "forever" { Ok(FOR_EVER) } else { duration(&written) }
}

pub(crate) fn crate_path(input: ParseStream, example: &str) -> Result<Path> {
    or_else_say(input, example, |input| {
        if input.peek(LitStr) {
            input.parse::<LitStr>()?.parse_with(Path::parse_mod_style)
        } else {
            Path::parse_mod_style(input)
        }
    })
}
