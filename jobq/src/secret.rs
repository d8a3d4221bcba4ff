//! Secrets: how a row marks them, so that anybody can leave them out without knowing the type; sealed, where there is a key.
//!
//! A parameter with `#[secret]` on it is stored as `{"$secret": value}`, or sealed as `{"$sealed": "key:base64"}`. What
//! people see of a payload has `"[redacted]"` in its place.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _, MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::{Value, value::RawValue};
use std::{any::type_name, borrow::Cow, cell::Cell, convert::Infallible, fmt};

#[cfg(feature = "encryption")]
mod keys;
#[cfg(not(feature = "encryption"))]
mod keys {
    use super::{SealError, Why};

    /// The keys that secrets are sealed with; there are none without the feature `encryption`.
    #[derive(Clone, Debug)]
    pub enum SecretKeys {}

    impl SecretKeys {
        pub(super) fn seal(&self, _value: &str, _bound_to: &str) -> Result<String, SealError> {
            match *self {}
        }

        pub(super) fn open(&self, _key: &str, _sealed: &str, _bound_to: &str) -> Result<String, Why> {
            match *self {}
        }
    }
}

#[cfg(feature = "encryption")]
pub use keys::BadKeys;
pub use keys::SecretKeys;

/// What stands before a secret, and before a sealed one.
pub(crate) const PLAIN: &str = "$secret";
const SEALED: &str = "$sealed";
/// Where neither stands in a text, there is no secret in it.
const EITHER: &str = "\"$se";
/// What people see in a secret's place, as JSON.
const REDACTED: &str = "\"[redacted]\"";

// ---- on the way into a payload and out of it -------------------------------------------------------------------

/// Writes the field of a payload as a secret. Written by `#[job]`, as serde's `with`.
///
/// # Errors
/// As the value's own.
pub fn serialize<T: Serialize + ?Sized, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    let mut marked = to.serialize_map(Some(1))?;
    let (written, _inside) = counted(|| marked.serialize_entry(PLAIN, value));
    WRITTEN.set(WRITTEN.get().saturating_add(1));
    written?;
    marked.end()
}

thread_local! {
    /// How many secrets were written that stand in no other one.
    static WRITTEN: Cell<usize> = const { Cell::new(0) };
}

/// What `write` gives, and how many secrets it has written that stand in no other one.
pub(crate) fn counted<T>(write: impl FnOnce() -> T) -> (T, usize) {
    let before = WRITTEN.replace(0);
    let given = write();
    (given, WRITTEN.replace(before))
}

/// What is said of a secret that would be stored where nobody knows it for one.
pub(crate) fn misplaced() -> serde_json::Error {
    serde_json::Error::custom(
        "a secret that stands inside another payload would be shown to everybody: only a parameter of the job itself \
         can be a secret; mark the whole parameter that holds it `#[secret]`",
    )
}

/// Reads a secret; also one that was written before it was one, or by hand.
///
/// # Errors
/// They never quote what they were given.
pub fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let unfit = || D::Error::custom(format!("{UNFIT} `{}`", type_name::<T>()));
    let value = match Value::deserialize(from).map_err(|_| unfit())? {
        Value::Object(mut marked) if marked.len() == 1 && marked.contains_key(PLAIN) => {
            marked.remove(PLAIN).unwrap_or_default()
        }
        Value::Object(marked) if marked.len() == 1 && marked.contains_key(SEALED) => {
            return Err(D::Error::custom("a secret that is sealed, and was not opened"));
        }
        value => value,
    };
    T::deserialize(value).map_err(|_| unfit())
}

const UNFIT: &str = "a secret that is no";

/// What serde says of a payload with secrets in it, without what it quotes.
pub(crate) fn discreet(error: serde_json::Error) -> serde_json::Error {
    const QUOTES_NAMES_ONLY: [&str; 4] =
        ["missing field ", "unknown field ", "duplicate field ", "a secret that "];
    let text = error.to_string();
    if QUOTES_NAMES_ONLY.iter().any(|harmless| text.starts_with(harmless)) {
        return error;
    }
    let (line, column) = (error.line(), error.column());
    serde_json::Error::custom(format!(
        "it is of another shape at line {line} column {column} (what stands there is withheld, it may be a secret)"
    ))
}

// ---- in a payload's text ---------------------------------------------------------------------------------------

/// What a field of a payload is to who reads it: the job's type says so. What a value looks like says nothing, for any
/// value may look like a mark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldIs {
    /// A secret.
    Secret,
    /// None.
    Plain,
    /// None in this build; the payload is of another version, where it may have been one.
    Former,
    /// No field that this build knows.
    Unknown,
}

/// The payload as people may see it who don't know its type: without whatever is marked.
pub(crate) fn redacted(payload: &str) -> Cow<'_, str> {
    redacted_as(payload, false, |_| FieldIs::Unknown)
}

/// The payload as people may see it. `any`: its type has secrets, which may stand there without a mark.
pub(crate) fn redacted_as(payload: &str, any: bool, is: impl Fn(&str) -> FieldIs) -> Cow<'_, str> {
    let rewritten = each(payload, any, |field, value| match is(field) {
        FieldIs::Plain => Ok::<_, Infallible>(None),
        FieldIs::Secret => Ok(Some(REDACTED.to_owned())),
        FieldIs::Former | FieldIs::Unknown => Ok(marked(value).map(|_| REDACTED.to_owned())),
    });
    never(rewritten)
}

/// The payload without the marks. What is sealed stays sealed.
pub(crate) fn bare(payload: &str, is: impl Fn(&str) -> FieldIs) -> Cow<'_, str> {
    let rewritten = each(payload, false, |field, value| match (is(field), marked(value)) {
        (FieldIs::Secret | FieldIs::Unknown, Some(Secret::Plain(value))) => {
            Ok::<_, Infallible>(Some(value.to_owned()))
        }
        _ => Ok(None),
    });
    never(rewritten)
}

/// How many secrets are marked in this payload.
pub(crate) fn marks(payload: &str, is: impl Fn(&str) -> FieldIs) -> usize {
    let mut marks = 0;
    let counted = each(payload, false, |field, value| {
        let secret = matches!(is(field), FieldIs::Secret | FieldIs::Unknown);
        marks += usize::from(secret && marked(value).is_some());
        Ok::<_, Infallible>(None)
    });
    drop(counted);
    marks
}

/// JSON text, marked as a secret.
pub(crate) fn mark(value: &str) -> String {
    format!("{{\"{PLAIN}\":{value}}}")
}

/// A debug view of one field of a payload.
pub(crate) fn shown(value: &RawValue) -> &str {
    if marked(value.get()).is_some() { "[redacted]" } else { value.get() }
}

/// A secret as it stands in a payload.
#[derive(Debug)]
enum Secret<'a> {
    /// JSON text.
    Plain(&'a str),
    /// The JSON string of what was sealed.
    Sealed(&'a str),
}

/// The payload with what `anew` gives in the place of a field's value; `None` leaves it as it is. Without `any`, only a
/// payload that has something like a mark in it is looked at.
fn each<'a, E>(
    payload: &'a str,
    any: bool,
    mut anew: impl FnMut(&str, &str) -> Result<Option<String>, E>,
) -> Result<Cow<'a, str>, E> {
    // Most payloads have none.
    if !any && !payload.contains(EITHER) {
        return Ok(Cow::Borrowed(payload));
    }
    let Ok(Fields(fields)) = serde_json::from_str(payload) else { return Ok(Cow::Borrowed(payload)) };
    let mut written = String::with_capacity(payload.len());
    let mut other = false;
    for (place, (name, value)) in fields.iter().enumerate() {
        written.push(if place == 0 { '{' } else { ',' });
        written += &Value::from(name.as_str()).to_string();
        written.push(':');
        let new = anew(name, value.get())?;
        other |= new.is_some();
        written += new.as_deref().unwrap_or(value.get());
    }
    written += if fields.is_empty() { "{}" } else { "}" };
    Ok(if other { Cow::Owned(written) } else { Cow::Borrowed(payload) })
}

fn never<T>(made: Result<T, Infallible>) -> T {
    match made {
        Ok(made) => made,
        Err(never) => match never {},
    }
}

/// The secret that this value is marked as.
fn marked(value: &str) -> Option<Secret<'_>> {
    if !value.contains(EITHER) {
        return None;
    }
    let fields: Borrowed<'_> = serde_json::from_str(value).ok()?;
    match fields.0 {
        Some((name, value)) if name == PLAIN => Some(Secret::Plain(value.get())),
        Some((name, value)) if name == SEALED => Some(Secret::Sealed(value.get())),
        _ => None,
    }
}

/// The fields of a JSON object in their order.
pub(crate) struct Fields(pub(crate) Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// The one field of a JSON object; none where there are more.
struct Borrowed<'a>(Option<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Borrowed<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct One;
        impl<'de> Visitor<'de> for One {
            type Value = Option<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let first = map.next_entry()?;
                let mut more = false;
                while map.next_entry::<String, &RawValue>()?.is_some() {
                    more = true;
                }
                Ok(first.filter(|_| !more))
            }
        }
        from.deserialize_map(One).map(Borrowed)
    }
}

// ---- sealed ----------------------------------------------------------------------------------------------------

/// The payload of a job of this type with each secret sealed.
///
/// # Errors
/// A secret can't be sealed: there is no randomness to be had. It is not to be stored then.
pub(crate) fn sealed<'a>(
    keys: &SecretKeys,
    job_type: &str,
    payload: &'a str,
    is: impl Fn(&str) -> FieldIs,
) -> Result<Cow<'a, str>, SealError> {
    each(payload, false, |field, value| match (is(field), marked(value)) {
        (FieldIs::Secret | FieldIs::Unknown, Some(Secret::Plain(value))) => {
            let sealed = keys.seal(value, &bound_to(job_type, field))?;
            Ok(Some(format!("{{\"{SEALED}\":\"{sealed}\"}}")))
        }
        _ => Ok(None),
    })
}

/// The payload with each sealed secret opened, as it was before it was sealed.
///
/// # Errors
/// A key is lacking, or it is another one: says which.
pub(crate) fn opened<'a>(
    keys: Option<&SecretKeys>,
    job_type: &str,
    payload: &'a str,
    is: impl Fn(&str) -> FieldIs,
) -> Result<Cow<'a, str>, OpenError> {
    each(payload, false, |field, value| {
        let is = is(field);
        let sealed = match marked(value) {
            Some(Secret::Sealed(sealed)) if is != FieldIs::Plain => sealed,
            _ => return Ok(None),
        };
        match open(keys, sealed, &bound_to(job_type, field)) {
            Ok(opened) => Ok(Some(mark(&opened))),
            // What does not open was never sealed.
            Err(_) if is == FieldIs::Former => Ok(None),
            Err(why) => Err(OpenError { field: field.to_owned(), job_type: job_type.to_owned(), why }),
        }
    })
}

fn open(keys: Option<&SecretKeys>, sealed: &str, bound_to: &str) -> Result<String, Why> {
    let sealed: String = serde_json::from_str(sealed).map_err(|_| Why::Damaged)?;
    let (key, sealed) = sealed.split_once(':').ok_or(Why::Damaged)?;
    let keys = keys.ok_or_else(|| Why::NoKey(key.to_owned()))?;
    keys.open(key, sealed, bound_to)
}

/// What a sealed secret is bound to: moved to another field, or to a job of another type, it can't be opened.
fn bound_to(job_type: &str, field: &str) -> String {
    format!("jobq\0{job_type}\0{field}")
}

/// A secret could not be sealed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("a secret can't be sealed, and is not stored as it is: {0}")]
pub struct SealError(pub(crate) String);

/// A sealed secret can't be opened here.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the secret `{field}` of `{job_type}` can't be opened: {why}")]
pub struct OpenError {
    /// The field of the payload.
    pub field: String,
    /// The stored name of the job.
    pub job_type: String,
    why: Why,
}

const HOW_TO_OPEN: &str = match cfg!(feature = "encryption") {
    true => "add it to JOBQ_SECRET_KEYS, or to the `secret_keys` of the queue",
    false => "this build of jobq lacks the feature `encryption`",
};

#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Why {
    #[error("it is sealed with the key `{0}`, which is not here: {HOW_TO_OPEN}")]
    NoKey(String),
    #[cfg_attr(not(feature = "encryption"), expect(dead_code, reason = "nothing is opened then"))]
    #[error("the key `{0}` is another one than it was sealed with, or the row was changed by hand")]
    WrongKey(String),
    #[error("the row was changed by hand")]
    Damaged,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_is_redacted_and_nothing_else() {
        for (payload, shown) in [
            (r#"{"a":1,"b":{"$secret":"x"}}"#, r#"{"a":1,"b":"[redacted]"}"#),
            (r#"{ "a" : { "$secret" : {"b": [1, "x"]} } , "c":"é"}"#, r#"{"a":"[redacted]","c":"é"}"#),
            (r#"{"a":{"$sealed":"k:x"},"b":null}"#, r#"{"a":"[redacted]","b":null}"#),
            (r#"{"a":{"$secret":1,"b":2}}"#, r#"{"a":{"$secret":1,"b":2}}"#),
            (r#"{"a":"\"$secret\""}"#, r#"{"a":"\"$secret\""}"#),
            (r#"{"a\"b":{"$secret":1}}"#, r#"{"a\"b":"[redacted]"}"#),
            (r#"[{"$secret":1}]"#, r#"[{"$secret":1}]"#),
            ("{}", "{}"),
            ("null", "null"),
            ("", ""),
        ] {
            assert_eq!(redacted(payload), shown, "{payload}");
        }
    }

    #[test]
    fn a_bare_payload_is_as_it_was_without_marks() {
        let payload = r#"{"a":{"$secret":{"b":1}},"c":{"$secret":2},"d":{"$sealed":"k:x"}}"#;
        let is = |name: &str| if name == "c" { FieldIs::Plain } else { FieldIs::Secret };
        assert_eq!(bare(payload, is), r#"{"a":{"b":1},"c":{"$secret":2},"d":{"$sealed":"k:x"}}"#);
    }

    #[test]
    fn a_secret_is_read_with_its_mark_and_without() {
        #[derive(Deserialize, Serialize, PartialEq, Debug)]
        struct Payload {
            #[serde(with = "super")]
            token: Vec<u8>,
        }
        let payload = Payload { token: vec![1, 2] };
        let text = serde_json::to_string(&payload).unwrap();
        assert_eq!(text, r#"{"token":{"$secret":[1,2]}}"#);
        assert_eq!(serde_json::from_str::<Payload>(&text).unwrap(), payload);
        assert_eq!(serde_json::from_str::<Payload>(r#"{"token":[1,2]}"#).unwrap(), payload);
        for wrong in [r#"{"token":"hush"}"#, r#"{"token":{"$secret":"hush"}}"#, r#"{"token":[hush]}"#] {
            let error = discreet(serde_json::from_str::<Payload>(wrong).unwrap_err()).to_string();
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
