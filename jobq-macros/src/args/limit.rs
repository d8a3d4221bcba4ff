//! `concurrency`, `rate_limit` and `concurrency_key`: how many jobs run at once and how often one starts, in all and for
//! each key.

use super::value::{duration, group, text, wanted, whole};
use proc_macro2::{Delimiter, Span};
use std::time::Duration;
use syn::{
    Ident, LitStr, Result, Token,
    ext::IdentExt,
    parse::{ParseStream, Parser},
};

use crate::Mistakes;

/// The most starts of a rate, and its longest time: those of `jobq::limit::Rate`.
const MOST_STARTS: u32 = 1_000_000;
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// What a type says of its limits.
#[derive(Default)]
pub(crate) struct Limits {
    concurrency: Shares<u32>,
    rate: Shares<Rate>,
    pub(crate) key: Option<LitStr>,
}

/// So many starts in so long a time.
#[derive(Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) starts: u32,
    pub(crate) per: Duration,
}

/// A number for all jobs of the type and one for those of each key, as written.
struct Shares<T> {
    /// Written alone: for each key where there is one, else for all.
    alone: Option<T>,
    total: Option<T>,
    per_key: Option<(T, Span)>,
}

impl<T> Default for Shares<T> {
    fn default() -> Self {
        Self { alone: None, total: None, per_key: None }
    }
}

/// A number for all jobs, and one for those of each key.
type Split<T> = (Option<T>, Option<T>);

impl<T: Copy> Shares<T> {
    fn read(
        word: &Ident,
        example: &str,
        input: ParseStream,
        value: fn(ParseStream, &str) -> Result<T>,
    ) -> Result<Self> {
        if input.parse::<Option<Token![=]>>()?.is_some() {
            return Ok(Self { alone: Some(value(input, example)?), ..Self::default() });
        }
        let both = format!("{word}(total = …, per_key = …)");
        let settings = group(input, Delimiter::Parenthesis).ok_or_else(|| {
            let _: Result<proc_macro2::TokenStream> = input.parse();
            wanted(word, &format!("{example}` or `{both}"))
        })?;
        let read = |input: ParseStream| Self::settings(word, example, input, value);
        read.parse2(settings)
    }

    fn settings(
        word: &Ident,
        example: &str,
        input: ParseStream,
        value: fn(ParseStream, &str) -> Result<T>,
    ) -> Result<Self> {
        let mut shares = Self::default();
        while !input.is_empty() {
            let name: Ident = input.call(Ident::parse_any)?;
            let told = |text: String| Err(syn::Error::new(name.span(), text));
            input.parse::<Token![=]>().map_err(|_| wanted(&name, example))?;
            let taken = match name.to_string().as_str() {
                "total" => shares.total.replace(value(input, example)?).is_some(),
                "per_key" => shares.per_key.replace((value(input, example)?, name.span())).is_some(),
                other => {
                    return told(format!("unknown setting `{other}`\nknown settings: `total`, `per_key`"));
                }
            };
            if taken {
                return told(format!("setting `{name}` is given twice"));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if shares.total.is_none() && shares.per_key.is_none() {
            return Err(wanted(word, example));
        }
        Ok(shares)
    }

    fn split(&self, keyed: bool) -> Split<T> {
        let per_key = self.per_key.map(|(value, _)| value);
        if keyed { (self.total, per_key.or(self.alone)) } else { (self.total.or(self.alone), per_key) }
    }
}

impl Limits {
    /// One of the options that count.
    pub(super) fn read(&mut self, word: &Ident, example: &str, input: ParseStream) -> Result<()> {
        if word == "concurrency" {
            self.concurrency = Shares::read(word, example, input, slots)?;
        } else {
            self.rate = Shares::read(word, example, input, rate)?;
        }
        Ok(())
    }

    pub(super) fn read_key(&mut self, example: &str, input: ParseStream) -> Result<()> {
        self.key = Some(text(input, example)?);
        Ok(())
    }

    /// What is for each key needs one.
    pub(super) fn check(&self, mistakes: &mut Mistakes) {
        let of_slots = self.concurrency.per_key.map(|(_, at)| at);
        let of_starts = self.rate.per_key.map(|(_, at)| at);
        for at in [of_slots, of_starts].into_iter().flatten().filter(|_| self.key.is_none()) {
            mistakes.say(
                at,
                "`per_key` counts the jobs of each key, and this job has none: name fields, as in \
                 `concurrency_key = \"{tenant}\"`",
            );
        }
    }

    pub(crate) fn concurrency(&self) -> Split<u32> {
        self.concurrency.split(self.key.is_some())
    }

    pub(crate) fn rate(&self) -> Split<Rate> {
        self.rate.split(self.key.is_some())
    }
}

fn slots(input: ParseStream, example: &str) -> Result<u32> {
    let at = input.span();
    match whole(input, example, 0, u32::MAX.into())? {
        0 => Err(syn::Error::new(at, "a limit of 0 jobs would let none run; pause the job type instead")),
        jobs => Ok(jobs as u32),
    }
}

/// `"100/1m"`
fn rate(input: ParseStream, example: &str) -> Result<Rate> {
    let written = text(input, example)?;
    let wrong = |why: &str| syn::Error::new(written.span(), format!("{why}; write `{example}`"));
    let value = written.value();
    let (starts, per) =
        value.split_once('/').ok_or_else(|| wrong("a rate is a number of starts, `/`, and a duration"))?;
    let starts: u32 =
        starts.trim().parse().map_err(|_| wrong("what stands before the `/` is no whole number"))?;
    let per = duration(&LitStr::new(per.trim(), written.span()))?;
    if starts == 0 {
        return Err(wrong("a rate of 0 starts would let none run"));
    }
    if starts > MOST_STARTS {
        return Err(wrong("a rate has at most 1000000 starts"));
    }
    if per.is_zero() || per > LONGEST {
        return Err(wrong("the time of a rate is 1 ms to 366 days"));
    }
    Ok(Rate { starts, per })
}
