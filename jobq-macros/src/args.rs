//! The options of the attribute: each read alone, so that a mistake in one hides none in another.

use crate::{Mistakes, did_you_mean, words};
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use std::time::Duration;
use syn::{
    Expr, ExprLit, ExprUnary, Ident, Lit, LitStr, Path, Result, Token, UnOp,
    ext::IdentExt,
    parse::{ParseStream, Parser},
    punctuated::Punctuated,
};

/// The longest `job_type` and queue name, in bytes: the limit of the store.
pub(crate) const MAX_NAME: usize = 64;

/// What this version knows, each with an example for error messages.
const KNOWN: [(&str, &str); 13] = [
    ("payload", "payload = WelcomeMail"),
    ("type", "type = \"mail:welcome\""),
    ("aliases", "aliases = [\"old_name\"]"),
    ("queue", "queue = \"mail\""),
    ("priority", "priority = 5"),
    ("max_attempts", "max_attempts = 3"),
    ("timeout", "timeout = \"30s\""),
    ("backoff", "backoff = fixed(\"30s\")"),
    ("label", "label = \"Welcome mail to {email}\""),
    ("retain", "retain = \"7d\""),
    ("serde", "serde(rename_all = \"camelCase\")"),
    ("blocking", "blocking"),
    ("crate", "crate = my_jobq"),
];

/// What a later version will know.
const LATER: [&str; 12] = [
    "concurrency",
    "concurrency_key",
    "rate_limit",
    "unique",
    "cron",
    "tz",
    "catch_up",
    "on",
    "version",
    "upgrade",
    "step",
    "secret",
];

/// What people who come from other queues write.
const ELSEWHERE: [(&str, &str); 10] = [
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
    pub(crate) label: Option<LitStr>,
    pub(crate) retain: Option<Duration>,
    pub(crate) serde: Option<TokenStream>,
    pub(crate) blocking: bool,
}

/// How long an attempt may take.
pub(crate) enum Timeout {
    After(Duration),
    Never,
}

/// The wait between attempts.
pub(crate) enum Backoff {
    Exponential { base: Duration, factor: f64, max: Duration, jitter: f64 },
    Fixed { delay: Duration, jitter: f64 },
    DoublingToAMinute,
    Own(Path),
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
            label: None,
            retain: None,
            serde: None,
            blocking: false,
        };
        let mut seen: Vec<String> = Vec::new();
        for option in split_at_commas(tokens, mistakes) {
            let read = |input: ParseStream| options.read_one(input, &mut seen);
            if let Err(mistake) = read.parse2(option) {
                mistakes.add(mistake);
            }
        }
        options
    }

    fn read_one(&mut self, input: ParseStream, seen: &mut Vec<String>) -> Result<()> {
        if !input.peek(Ident::peek_any) {
            return Err(input.error(format!("expected an option, such as `{}`", KNOWN[5].1)));
        }
        let word = Ident::parse_any(input)?;
        let name = word.to_string();
        let Some((_, example)) = KNOWN.iter().find(|(known, _)| *known == name) else {
            skip(input);
            return Err(unknown(&word, &name));
        };
        if seen.contains(&name) {
            skip(input);
            return Err(syn::Error::new(word.span(), format!("option `{name}` is given twice")));
        }
        seen.push(name.clone());
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
            "serde" => {
                self.serde = Some(group(input, Delimiter::Parenthesis).ok_or_else(|| wanted(word, example))?);
                return Ok(());
            }
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
            "label" => self.label = Some(text(input, example)?),
            "retain" => self.retain = Some(retain(input, example)?),
            _ => self.jobq = crate_path(input, example)?,
        }
        Ok(())
    }
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
    if LATER.contains(&name) {
        let text = format!("option `{name}` is not available in this version of jobq");
        return syn::Error::new(word.span(), text);
    }
    let known: Vec<&str> = KNOWN.iter().map(|(known, _)| *known).collect();
    let meant = ELSEWHERE
        .iter()
        .find(|(theirs, _)| *theirs == name)
        .map(|(_, ours)| format!("; did you mean `{ours}`?"))
        .unwrap_or_else(|| did_you_mean(name, known.iter().copied()));
    syn::Error::new(word.span(), format!("unknown option `{name}`{meant}\nknown options: {}", words(known)))
}

fn wanted(at: impl ToTokens, example: &str) -> syn::Error {
    syn::Error::new_spanned(at, format!("write `{example}`"))
}

/// What `read` reads; where it can't, an error at those tokens that shows what was wanted.
fn or_else_say<T>(input: ParseStream, example: &str, read: impl Fn(ParseStream) -> Result<T>) -> Result<T> {
    let ahead = input.fork();
    if read(&ahead).is_ok() {
        return read(input);
    }
    let written: TokenStream = input.parse()?;
    Err(wanted(written, example))
}

fn text(input: ParseStream, example: &str) -> Result<LitStr> {
    or_else_say(input, example, |input| input.parse())
}

/// A name that rows carry: a job type or a queue.
fn job_name(input: ParseStream, example: &str) -> Result<LitStr> {
    let name = text(input, example)?;
    check_name(&name.value()).map_err(|why| syn::Error::new(name.span(), why))?;
    Ok(name)
}

/// Whether rows can carry this name.
pub(crate) fn check_name(name: &str) -> std::result::Result<(), String> {
    if name.is_empty() {
        return Err("a name needs at least one character".into());
    }
    if name.len() > MAX_NAME {
        return Err(format!("this name has {} bytes; at most {MAX_NAME} are stored", name.len()));
    }
    if name.chars().any(char::is_control) || name.trim() != name {
        return Err("a name has no control characters, and no spaces at its ends".into());
    }
    Ok(())
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

/// The tokens within the brackets that come next, if they do.
fn group(input: ParseStream, delimiter: Delimiter) -> Option<TokenStream> {
    let ahead = input.fork();
    let group: proc_macro2::Group = ahead.parse().ok()?;
    if group.delimiter() != delimiter {
        return None;
    }
    input.parse::<proc_macro2::Group>().ok().map(|group| group.stream())
}

/// A whole number within a range.
fn whole(input: ParseStream, example: &str, least: i64, most: i64) -> Result<i64> {
    let written: Expr = or_else_say(input, example, |input| input.parse())?;
    let wrong = || {
        let text = format!("expected a whole number from {least} to {most}: `{example}`");
        syn::Error::new_spanned(&written, text)
    };
    let (sign, number) = match &written {
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => (-1, &**expr),
        other => (1, other),
    };
    let Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) = number else { return Err(wrong()) };
    let number = sign * number.base10_parse::<i64>().map_err(|_| wrong())?;
    if (least..=most).contains(&number) { Ok(number) } else { Err(wrong()) }
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

/// Longer than any database: about a thousand years, and far from where sums overflow.
const FOR_EVER: Duration = Duration::from_millis(1 << 45);

fn retain(input: ParseStream, example: &str) -> Result<Duration> {
    let written = text(input, example)?;
    if written.value() == "forever" { Ok(FOR_EVER) } else { duration(&written) }
}

fn crate_path(input: ParseStream, example: &str) -> Result<Path> {
    or_else_say(input, example, |input| {
        if input.peek(LitStr) {
            input.parse::<LitStr>()?.parse_with(Path::parse_mod_style)
        } else {
            Path::parse_mod_style(input)
        }
    })
}

const BACKOFFS: &str = "`exponential(base = \"10s\", factor = 2, max = \"1h\", jitter = 0.15)`, `fixed(\"30s\")`, \
                        `doubling_to_a_minute`, or the path of a `fn(u32, &JobError) -> Duration`";

impl Backoff {
    fn read(input: ParseStream) -> Result<Self> {
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

fn number(input: ParseStream, least: f64, most: f64) -> Result<f64> {
    let written: Lit = input.parse()?;
    let value = match &written {
        Lit::Int(number) => number.base10_parse::<f64>().ok(),
        Lit::Float(number) => number.base10_parse::<f64>().ok(),
        _ => None,
    };
    value
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| syn::Error::new(written.span(), format!("expected a number from {least} to {most}")))
}

fn spanned_duration(input: ParseStream) -> Result<(Duration, Span)> {
    let written: Lit = input.parse()?;
    let Lit::Str(written) = &written else {
        return Err(syn::Error::new(written.span(), "a duration is text with its unit, such as `\"30s\"`"));
    };
    Ok((duration(written)?, written.span()))
}

/// `"250ms"`, `"30s"`, `"1h30m"`, `"7d"`.
fn duration(written: &LitStr) -> Result<Duration> {
    let wrong = || {
        let text = format!(
            "`{}` is not a duration; write numbers with units, the larger first: \"250ms\", \"30s\", \"5m\", \"1h30m\", \"7d\"",
            written.value()
        );
        syn::Error::new(written.span(), text)
    };
    parse_duration(&written.value()).ok_or_else(wrong)
}

fn parse_duration(text: &str) -> Option<Duration> {
    const UNITS: [(&str, u64); 5] =
        [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
    let (mut rest, mut millis, mut units) = (text, 0_u64, &UNITS[..]);
    loop {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (unit, after) = after.split_at(letters);
        let place = units.iter().position(|(name, _)| *name == unit)?;
        millis = number.parse::<u64>().ok()?.checked_mul(units[place].1)?.checked_add(millis)?;
        if after.is_empty() {
            return Some(Duration::from_millis(millis)).filter(|duration| *duration <= FOR_EVER);
        }
        (rest, units) = (after, &units[place + 1..]);
    }
}

/// A duration as expanded code writes it.
pub(crate) fn duration_tokens(duration: Duration, private: &TokenStream) -> TokenStream {
    let millis = duration.as_millis() as u64;
    if millis.is_multiple_of(1000) {
        let seconds = millis / 1000;
        quote!(#private::Duration::from_secs(#seconds))
    } else {
        quote!(#private::Duration::from_millis(#millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units_the_larger_first() {
        let millis = |text| parse_duration(text).map(|duration| duration.as_millis());
        assert_eq!(millis("250ms"), Some(250));
        assert_eq!(millis("30s"), Some(30_000));
        assert_eq!(millis("5m"), Some(300_000));
        assert_eq!(millis("1h30m"), Some(5_400_000));
        assert_eq!(millis("7d"), Some(604_800_000));
        assert_eq!(millis("1d2h3m4s5ms"), Some(93_784_005));
        assert_eq!(millis("0s"), Some(0));
        for wrong in [
            "",
            "30",
            "s",
            "30 s",
            "1.5s",
            "-1s",
            "30m1h",
            "1m1m",
            "5min",
            "1h 30m",
            "30S",
            "٣s",
            "9999999999999999999d",
        ] {
            assert_eq!(millis(wrong), None, "{wrong:?}");
        }
        assert_eq!(millis("99999999d"), None, "beyond what sums of times can hold");
    }

    #[test]
    fn names_are_what_rows_can_carry() {
        assert!(check_name("exploration:run").is_ok());
        assert!(check_name(&"x".repeat(64)).is_ok());
        for wrong in ["", &"x".repeat(65), " mail", "mail ", "ma\nil", &"ä".repeat(33)] {
            assert!(check_name(wrong).is_err(), "{wrong:?}");
        }
    }
}
