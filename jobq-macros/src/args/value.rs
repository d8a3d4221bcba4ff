//! The values of options: names, numbers, durations, and the error that shows what was wanted.

use proc_macro2::{Delimiter, Span, TokenStream};
use quote::{ToTokens, quote};
use std::time::Duration;
use syn::{Expr, ExprLit, ExprUnary, Lit, LitStr, Result, UnOp, parse::ParseStream};

/// The longest `job_type` and queue name, in bytes: the limit of the store.
const MAX_NAME: usize = 64;

pub(crate) fn wanted(at: impl ToTokens, example: &str) -> syn::Error {
    syn::Error::new_spanned(at, format!("write `{example}`"))
}

/// What `read` reads; where it can't, an error at those tokens that shows what was wanted.
pub(crate) fn or_else_say<T>(
    input: ParseStream,
    example: &str,
    read: impl Fn(ParseStream) -> Result<T>,
) -> Result<T> {
    let ahead = input.fork();
    if read(&ahead).is_ok() {
        return read(input);
    }
    let written: TokenStream = input.parse()?;
    Err(wanted(written, example))
}

pub(crate) fn text(input: ParseStream, example: &str) -> Result<LitStr> {
    or_else_say(input, example, |input| input.parse())
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

/// The tokens within the brackets that come next, if they do.
pub(crate) fn group(input: ParseStream, delimiter: Delimiter) -> Option<TokenStream> {
    let ahead = input.fork();
    let group: proc_macro2::Group = ahead.parse().ok()?;
    if group.delimiter() != delimiter {
        return None;
    }
    input.parse::<proc_macro2::Group>().ok().map(|group| group.stream())
}

/// A whole number within a range.
pub(crate) fn whole(input: ParseStream, example: &str, least: i64, most: i64) -> Result<i64> {
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

pub(crate) fn number(input: ParseStream, least: f64, most: f64) -> Result<f64> {
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

pub(crate) fn spanned_duration(input: ParseStream) -> Result<(Duration, Span)> {
    let written: Lit = input.parse()?;
    let Lit::Str(written) = &written else {
        return Err(syn::Error::new(written.span(), "a duration is text with its unit, such as `\"30s\"`"));
    };
    Ok((duration(written)?, written.span()))
}

/// Longer than any database: about a thousand years, and far from where sums overflow.
pub(crate) const FOR_EVER: Duration = Duration::from_millis(1 << 45);

/// `"250ms"`, `"30s"`, `"1h30m"`, `"7d"`.
pub(crate) fn duration(written: &LitStr) -> Result<Duration> {
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
