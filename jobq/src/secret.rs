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
use std::{any::type_name, borrow::Cow, fmt};

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
const PLAIN: &str = "$secret";
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
    marked.serialize_entry(PLAIN, value)?;
    marked.end()
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

/// The payload as people may see it.
pub(crate) fn redacted(payload: &str) -> Cow<'_, str> {
    each(payload, |_, _| Some(REDACTED.to_owned()))
}

/// The payload without the marks. What is sealed stays sealed.
pub(crate) fn bare(payload: &str) -> Cow<'_, str> {
    each(payload, |_, secret| match secret {
        Secret::Plain(value) => Some(value.to_owned()),
        Secret::Sealed(_) => None,
    })
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

/// The payload with what `anew` gives in the place of each secret; `None` leaves it as it is.
fn each<'a>(payload: &'a str, mut anew: impl FnMut(&str, Secret<'_>) -> Option<String>) -> Cow<'a, str> {
    let rewritten = try_each(payload, |field, secret| Ok::<_, std::convert::Infallible>(anew(field, secret)));
    match rewritten {
        Ok(rewritten) => rewritten,
        Err(never) => match never {},
    }
}

fn try_each<'a, E>(
    payload: &'a str,
    mut anew: impl FnMut(&str, Secret<'_>) -> Result<Option<String>, E>,
) -> Result<Cow<'a, str>, E> {
    // Most payloads have none.
    if !payload.contains(EITHER) {
        return Ok(Cow::Borrowed(payload));
    }
    let Ok(Fields(fields)) = serde_json::from_str(payload) else { return Ok(Cow::Borrowed(payload)) };
    let mut written = String::with_capacity(payload.len());
    for (place, (name, value)) in fields.iter().enumerate() {
        written.push(if place == 0 { '{' } else { ',' });
        written += &Value::from(name.as_str()).to_string();
        written.push(':');
        let new = match marked(value.get()) {
            Some(secret) => anew(name, secret)?,
            None => None,
        };
        written += new.as_deref().unwrap_or(value.get());
    }
    written += if fields.is_empty() { "{}" } else { "}" };
    Ok(Cow::Owned(written))
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

/// The payload of a job of this type with each secret sealed, where there is a key.
///
/// # Errors
/// A secret can't be sealed: there is no randomness to be had. It is not to be stored then.
pub(crate) fn sealed<'a>(
    keys: Option<&SecretKeys>,
    job_type: &str,
    payload: &'a str,
) -> Result<Cow<'a, str>, SealError> {
    let Some(keys) = keys else { return Ok(Cow::Borrowed(payload)) };
    try_each(payload, |field, secret| match secret {
        Secret::Sealed(_) => Ok(None),
        Secret::Plain(value) => {
            let sealed = keys.seal(value, &bound_to(job_type, field))?;
            Ok(Some(format!("{{\"{SEALED}\":\"{sealed}\"}}")))
        }
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
) -> Result<Cow<'a, str>, OpenError> {
    try_each(payload, |field, secret| match secret {
        Secret::Plain(_) => Ok(None),
        Secret::Sealed(value) => {
            let refuse = |why| OpenError { field: field.to_owned(), job_type: job_type.to_owned(), why };
            let sealed: String = serde_json::from_str(value).map_err(|_| refuse(Why::Damaged))?;
            let (key, sealed) = sealed.split_once(':').ok_or_else(|| refuse(Why::Damaged))?;
            let Some(keys) = keys else { return Err(refuse(Why::NoKey(key.to_owned()))) };
            let opened = keys.open(key, sealed, &bound_to(job_type, field)).map_err(refuse)?;
            Ok(Some(format!("{{\"{PLAIN}\":{opened}}}")))
        }
    })
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
        assert_eq!(bare(r#"{"a":{"$secret":{"b":1}},"c":2}"#), r#"{"a":{"b":1},"c":2}"#);
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
