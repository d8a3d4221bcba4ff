//! Keys: secrets sealed with XChaCha20-Poly1305, each bound to its job type and field; several keys, told apart by name.

use super::{SealError, Why};
use base64::{Engine, engine::general_purpose::STANDARD};
use chacha20poly1305::{
    Key, KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Generate, Payload},
};
use std::fmt;

/// The length of a key, in bytes.
const KEY: usize = 32;
/// The length of the number that is drawn for each secret; so long that drawing never gives one twice.
const NONCE: usize = 24;
/// The longest name of a key, in bytes.
const MAX_ID: usize = 32;

/// The keys that `#[secret]` parameters are sealed with in the store.
///
/// The first one seals, all of them open: to change it, put a new one before it, and take the old one away once no row is
/// sealed with it any more.
///
/// ```
/// # use jobq::SecretKeys;
/// # let (new, old) = ([7; 32], [8; 32]);
/// let keys = SecretKeys::new("2026-b", new)?.and("2026-a", old)?;
/// # Ok::<(), jobq::BadKeys>(())
/// ```
#[derive(Clone)]
pub struct SecretKeys(Vec<(String, XChaCha20Poly1305)>);

impl SecretKeys {
    /// One key of this name: 1 to 32 letters, digits, `-`, `_` and `.`. The name is stored beside what it seals.
    ///
    /// # Errors
    /// [`BadKeys`]: the name can't be used.
    pub fn new(id: impl Into<String>, key: [u8; KEY]) -> Result<Self, BadKeys> {
        Self(Vec::new()).and(id, key)
    }

    /// The same and another key, which opens what it has sealed.
    ///
    /// # Errors
    /// [`BadKeys`]: the name can't be used, or there is one of this name.
    pub fn and(mut self, id: impl Into<String>, key: [u8; KEY]) -> Result<Self, BadKeys> {
        let id = id.into();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if id.is_empty() || id.len() > MAX_ID || !id.chars().all(fits) {
            return Err(BadKeys::Id(id));
        }
        if self.0.iter().any(|(known, _)| *known == id) {
            return Err(BadKeys::Twice(id));
        }
        self.0.push((id, XChaCha20Poly1305::new(&Key::from(key))));
        Ok(self)
    }

    /// Reads keys as the environment has them: `2026-b:base64,2026-a:base64`, the one that seals first. One without a
    /// name is `default`.
    ///
    /// # Errors
    /// [`BadKeys`] says what is wrong, and never what it was given.
    pub fn parse(text: &str) -> Result<Self, BadKeys> {
        let mut keys = Self(Vec::new());
        let entries = (1..).zip(text.split(',').map(str::trim)).filter(|(_, key)| !key.is_empty());
        for (place, entry) in entries {
            let named = entry.split_once(':').map(|(id, key)| (id.trim(), key.trim()));
            let (id, key) = named.unwrap_or(("default", entry));
            let unfit = || match named {
                Some((id, _)) => BadKeys::Text(id.to_owned()),
                None => BadKeys::Unnamed(place),
            };
            let bytes = STANDARD.decode(key).map_err(|_| unfit())?;
            keys = keys.and(id, <[u8; KEY]>::try_from(bytes).map_err(|_| unfit())?)?;
        }
        if keys.0.is_empty() { Err(BadKeys::None) } else { Ok(keys) }
    }

    pub(super) fn seal(&self, value: &str, bound_to: &str) -> Result<String, SealError> {
        let Some((id, key)) = self.0.first() else { return Err(SealError("there is no key".into())) };
        let nonce = XNonce::try_generate().map_err(|error| SealError(error.to_string()))?;
        let sealed = key.encrypt(&nonce, Payload { msg: value.as_bytes(), aad: bound_to.as_bytes() });
        let sealed = sealed.map_err(|error| SealError(error.to_string()))?;
        Ok(format!("{id}:{}", STANDARD.encode([&nonce[..], &sealed].concat())))
    }

    pub(super) fn open(&self, id: &str, sealed: &str, bound_to: &str) -> Result<String, Why> {
        let key = self.0.iter().find(|(known, _)| known == id);
        let (_, key) = key.ok_or_else(|| Why::NoKey(id.to_owned()))?;
        let sealed = STANDARD.decode(sealed).map_err(|_| Why::Damaged)?;
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>().ok_or(Why::Damaged)?;
        let opened = key.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: bound_to.as_bytes() });
        let opened = opened.map_err(|_| Why::WrongKey(id.to_owned()))?;
        String::from_utf8(opened).map_err(|_| Why::Damaged)
    }
}

/// Their names; never the keys.
impl fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.0.iter().map(|(id, _)| id).collect();
        f.debug_tuple("SecretKeys").field(&ids).finish()
    }
}

/// Keys that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadKeys {
    /// The name can't be used.
    #[error("{0:?} can't be the name of a key: write 1 to 32 letters, digits, `-`, `_`, `.`")]
    Id(String),
    /// Two keys have one name.
    #[error("two keys are named `{0}`: give the newer one another name")]
    Twice(String),
    /// The text of a key is not 32 bytes of base64.
    #[error("the key `{0}` is not 32 bytes in base64, as `openssl rand -base64 32` writes them")]
    Text(String),
    /// The entry at this place, the first is 1, has no name, and is no key either.
    #[error(
        "entry {0} has no name and is not 32 bytes in base64, as `openssl rand -base64 32` writes them: write \
         `name:base64`, several with commas between them"
    )]
    Unnamed(usize),
    /// There is no key in the text.
    #[error("there is no key in it: write `name:base64`, several with commas between them")]
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &str) -> SecretKeys {
        let key = |name: &str| format!("{name}:{}", STANDARD.encode([name.as_bytes()[0]; KEY]));
        SecretKeys::parse(&names.split(' ').map(key).collect::<Vec<_>>().join(", ")).unwrap()
    }

    #[test]
    fn what_is_sealed_is_opened_by_its_key_in_its_place_alone() {
        let sealed = keys("a").seal("\"hush\"", "mail token").unwrap();
        let (id, text) = sealed.split_once(':').unwrap();
        assert_eq!(keys("b a").open(id, text, "mail token").unwrap(), "\"hush\"");
        assert!(matches!(keys("a").open(id, text, "mail other"), Err(Why::WrongKey(key)) if key == "a"));
        assert!(matches!(keys("b").open(id, text, "mail token"), Err(Why::NoKey(key)) if key == "a"));
        let other = SecretKeys::new("a", [1; KEY]).unwrap();
        assert!(matches!(other.open(id, text, "mail token"), Err(Why::WrongKey(_))));
        assert!(matches!(keys("a").open(id, &text[8..], "mail token"), Err(Why::WrongKey(_) | Why::Damaged)));
        assert!(matches!(keys("a").open(id, "", "mail token"), Err(Why::Damaged)));
        assert_ne!(keys("a").seal("\"hush\"", "mail token").unwrap(), sealed, "no two are alike");
    }

    #[test]
    fn bad_keys_are_named_and_never_shown() {
        let key = STANDARD.encode([7; KEY]);
        assert!(SecretKeys::parse(&key).is_ok());
        for (text, wrong) in [
            ("".to_owned(), BadKeys::None),
            ("a:hush".to_owned(), BadKeys::Text("a".into())),
            ("hush".to_owned(), BadKeys::Unnamed(1)),
            (format!("a:{key},hush"), BadKeys::Unnamed(2)),
            (format!("a b:{key}"), BadKeys::Id("a b".into())),
            (format!("a:{key},a:{key}"), BadKeys::Twice("a".into())),
        ] {
            let error = SecretKeys::parse(&text).unwrap_err();
            assert_eq!(error, wrong);
            assert!(!error.to_string().contains("hush"));
        }
        assert_eq!(format!("{:?}", keys("a b")), r#"SecretKeys(["a", "b"])"#);
    }
}
