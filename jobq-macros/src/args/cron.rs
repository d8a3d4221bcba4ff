//! `cron = …` and what goes with it: the pattern and the zone are checked with the code that ticks them.

use super::value::{duration, group, or_else_say, text, wanted, whole};
use crate::{Mistakes, did_you_mean};
use proc_macro2::{Delimiter, Span, TokenStream};
use std::time::Duration;
use syn::{
    Ident, LitStr, Result,
    ext::IdentExt,
    parse::{ParseStream, Parser},
};

/// The times at which a job is enqueued.
#[derive(Default)]
pub(crate) struct Cron {
    pub(crate) pattern: Option<LitStr>,
    pub(crate) zone: Option<LitStr>,
    pub(crate) catch_up: Option<CatchUp>,
    /// Whether a tick is skipped while an earlier job is live.
    pub(crate) skips: Option<bool>,
    /// The options that mean nothing without `cron`.
    beside: Vec<(String, Span)>,
}

/// What becomes of missed ticks.
pub(crate) enum CatchUp {
    Once,
    OnceWithin(Duration),
    All(u32),
    Skip,
}

const CATCH_UPS: &str = "`once`, `once(\"6h\")`, `all(24)` or `skip`";
/// As `jobq::schedule::MOST_CAUGHT_UP`.
const MOST: i64 = 1000;

impl Cron {
    /// Reads what stands after `name =`.
    pub(super) fn read(&mut self, name: &str, word: &Ident, example: &str, input: ParseStream) -> Result<()> {
        if name == "cron" {
            self.pattern = Some(text(input, example)?);
            return Ok(());
        }
        self.beside.push((name.to_owned(), word.span()));
        match name {
            "tz" => self.zone = Some(text(input, example)?),
            "catch_up" => self.catch_up = Some(CatchUp::read(input)?),
            _ => self.skips = Some(overlap(input)?),
        }
        Ok(())
    }

    /// Looks at all of it, once it is read.
    pub(super) fn check(&self, named: bool, mistakes: &mut Mistakes) {
        if !named {
            for (name, span) in &self.beside {
                mistakes
                    .say(*span, format!("`{name}` says something about `cron = \"…\"`, which is not given"));
            }
        }
        self.check_meaning(mistakes);
    }

    #[cfg(feature = "cron")]
    fn check_meaning(&self, mistakes: &mut Mistakes) {
        use jobq_schedule::Cron;
        if let Some(pattern) = &self.pattern
            && let Err(why) = Cron::parse(&pattern.value(), "UTC")
        {
            mistakes.at(pattern, why);
        }
        if let Some(zone) = &self.zone
            && let Err(why) = Cron::parse("@daily", &zone.value())
        {
            mistakes.at(zone, why);
        }
    }

    #[cfg(not(feature = "cron"))]
    fn check_meaning(&self, mistakes: &mut Mistakes) {
        if let Some(pattern) = &self.pattern {
            mistakes.at(pattern, "schedules need jobq's feature `cron`, which is switched off");
        }
    }
}

impl CatchUp {
    fn read(input: ParseStream) -> Result<Self> {
        let word = or_else_say(input, "catch_up = once", |input| input.call(Ident::parse_any))?;
        let within = group(input, Delimiter::Parenthesis);
        match (word.to_string().as_str(), within) {
            ("once", None) => Ok(Self::Once),
            ("skip", None) => Ok(Self::Skip),
            ("once", Some(within)) => {
                let time = (|input: ParseStream| text(input, "once(\"6h\")")).parse2(within);
                let time = time.map_err(|_| wanted(&word, "once(\"6h\")"))?;
                Ok(Self::OnceWithin(duration(&time)?))
            }
            ("all", within) => {
                let most = |input: ParseStream| whole(input, "all(24)", 1, MOST);
                let empty = within.as_ref().is_none_or(TokenStream::is_empty);
                let most = if empty {
                    Err(wanted(&word, "all(24)"))
                } else {
                    most.parse2(within.unwrap_or_default())
                };
                Ok(Self::All(most? as u32))
            }
            (other, _) => {
                let meant = did_you_mean(other, ["once", "all", "skip"]);
                Err(syn::Error::new(word.span(), format!("expected {CATCH_UPS}{meant}")))
            }
        }
    }
}

fn overlap(input: ParseStream) -> Result<bool> {
    let word = or_else_say(input, "overlap = skip", |input| input.call(Ident::parse_any))?;
    match word.to_string().as_str() {
        "allow" => Ok(false),
        "skip" => Ok(true),
        other => {
            let meant = did_you_mean(other, ["allow", "skip"]);
            Err(syn::Error::new(word.span(), format!("expected `allow` or `skip`{meant}")))
        }
    }
}
