//! The encryption keys, each with an id.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use scratchbook_core::error::{Error, ErrorKind, Result};

/// The length of a key, in bytes.
const KEY_BYTES: usize = 32;
const MAX_ID_BYTES: usize = 64;
/// A file of this size or more is refused; a keyring of this size would have some thousand keys.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Encryption keys by id. New data is encrypted with the current key; data encrypted with an old key stays
/// readable.
///
/// Clones share their keys, which are wiped from memory when the last clone is dropped. `Debug` shows only ids.
///
/// ```
/// use scratchbook::layer::Keyring;
///
/// let keys = Keyring::new("2026-11", [7; 32])?.with_old("2026-05", [3; 32])?;
/// assert_eq!(format!("{keys:?}"), r#"Keyring { current: "2026-11", old: ["2026-05"] }"#);
///
/// let json = r#"{"current": "2026-11", "keys": {"2026-11": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="}}"#;
/// assert_eq!(Keyring::from_json(json)?.current(), "2026-11");
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyring {
    current: Arc<DerivedKeys>,
    old: BTreeMap<String, Arc<DerivedKeys>>,
}

impl Keyring {
    /// Creates a keyring with one key of 32 random bytes, which encrypts new data. The key's id is stored with
    /// everything that the key encrypts.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the id is empty, over 64 bytes, or has characters other than ASCII letters, digits,
    /// `.`, `_` and `-`.
    pub fn new(id: impl Into<String>, key: [u8; KEY_BYTES]) -> Result<Self> {
        Ok(Self { current: Arc::new(DerivedKeys::new(id.into(), key)?), old: BTreeMap::new() })
    }

    /// Adds an old key, which decrypts existing data and encrypts nothing.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the id is invalid or already in the keyring.
    pub fn with_old(mut self, id: impl Into<String>, key: [u8; KEY_BYTES]) -> Result<Self> {
        let key = DerivedKeys::new(id.into(), key)?;
        if self.key(&key.id).is_some() {
            return Err(Error::invalid(format!(
                "the keyring has two keys with the id '{}'; give each its own",
                key.id
            )));
        }
        self.old.insert(key.id.clone(), Arc::new(key));
        Ok(self)
    }

    /// Reads `{"current": ID, "keys": {ID: BASE64, ...}}`. Each key is the base64 of 32 bytes, as printed by
    /// `openssl rand -base64 32`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for anything else; the message shows no key.
    pub fn from_json(text: &str) -> Result<Self> {
        // An array would be read as the fields in order.
        if text.trim_start().starts_with('[') {
            return Err(Error::invalid("the keyring is an array; it is an object with 'current' and 'keys'"));
        }
        let mut file: KeyringFile = scratchbook_core::json::from_str(text).map_err(|e| e.context("the keyring"))?;
        let Some(current) = file.keys.remove(&file.current) else {
            return Err(Error::invalid(format!("the keyring's current key '{}' is not among its keys", file.current)));
        };
        let mut ring = Self::new(file.current.clone(), current.to_key(&file.current)?)?;
        for (id, key) in &file.keys {
            ring = ring.with_old(id.clone(), key.to_key(id)?)?;
        }
        Ok(ring)
    }

    /// Reads a file in the format of [`from_json`](Self::from_json).
    ///
    /// # Errors
    ///
    /// `NotFound` and `PermissionDenied` if the file cannot be read; otherwise as [`from_json`](Self::from_json).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let text = read(path).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
                _ => ErrorKind::InvalidArgument,
            };
            Error::new(kind, format!("cannot read the keyring {}", path.display())).with_source(error)
        })?;
        Self::from_json(&text).map_err(|e| e.context(path.display()))
    }

    /// Returns the id of the key that encrypts new data.
    #[must_use]
    pub fn current(&self) -> &str {
        &self.current.id
    }

    /// Returns whether data encrypted with this key can be decrypted.
    #[must_use]
    pub fn contains(&self, id: &str) -> bool {
        self.key(id).is_some()
    }

    pub(super) fn sealing(&self) -> &DerivedKeys {
        &self.current
    }

    pub(super) fn key(&self, id: &str) -> Option<&DerivedKeys> {
        if self.current.id == id { Some(&self.current) } else { self.old.get(id).map(Arc::as_ref) }
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let old: Vec<_> = self.old.keys().collect();
        f.debug_struct("Keyring").field("current", &self.current.id).field("old", &old).finish()
    }
}

/// Two keys that are derived from one: one for encryption and one for nonces, so that no key has two uses.
pub(super) struct DerivedKeys {
    pub(super) id: String,
    pub(super) sealing: Zeroizing<[u8; KEY_BYTES]>,
    pub(super) nonces: Zeroizing<[u8; KEY_BYTES]>,
}

impl DerivedKeys {
    fn new(id: String, mut key: [u8; KEY_BYTES]) -> Result<Self> {
        if !is_key_id(&id) {
            let rule = "it has 1 to 64 ASCII letters, digits, '.', '_' and '-'";
            return Err(Error::invalid(format!("{id:?} is no id of a key; {rule}")));
        }
        let derived = |label: &str| {
            let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&key)
                .map_err(|e| Error::internal("a key of the wrong length").with_source(e))?;
            mac.update(label.as_bytes());
            Ok::<_, Error>(Zeroizing::new(mac.finalize().into_bytes().into()))
        };
        let (sealing, nonces) = (derived("scratchbook 1 sealing")?, derived("scratchbook 1 nonces")?);
        key.zeroize();
        Ok(Self { id, sealing, nonces })
    }
}

/// Returns whether a key may have this id.
pub(super) fn is_key_id(id: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(is_plain)
}

/// Reads a file. Refuses a file that is too long for a keyring, because a device may have no end.
fn read(path: &Path) -> std::io::Result<Zeroizing<String>> {
    // The capacity is reserved at once, because a growing string leaves copies of itself in memory.
    let mut text = Zeroizing::new(String::with_capacity(MAX_FILE_BYTES));
    std::fs::File::open(path)?.take(MAX_FILE_BYTES as u64).read_to_string(&mut text)?;
    if text.len() == MAX_FILE_BYTES {
        let message = format!("it has {MAX_FILE_BYTES} bytes or more, and no keyring has");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, message));
    }
    Ok(text)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyringFile {
    current: String,
    #[serde(deserialize_with = "each_once")]
    keys: BTreeMap<String, KeyText>,
}

/// Reads the keys. Refuses an id that occurs twice, because one of its keys would be lost.
fn each_once<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, KeyText>, D::Error> {
    struct KeysVisitor;
    impl<'de> Visitor<'de> for KeysVisitor {
        type Value = BTreeMap<String, KeyText>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of keys by id")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut keys = BTreeMap::new();
            while let Some((id, key)) = map.next_entry::<String, KeyText>()? {
                if keys.contains_key(&id) {
                    return Err(de::Error::custom(format!("two keys have the id '{id}'; give each its own")));
                }
                keys.insert(id, key);
            }
            Ok(keys)
        }
    }
    deserializer.deserialize_map(KeysVisitor)
}

/// A key as text. It is wiped from memory when it is dropped.
#[derive(Deserialize)]
#[serde(transparent)]
struct KeyText(Zeroizing<String>);

impl KeyText {
    fn to_key(&self, id: &str) -> Result<[u8; KEY_BYTES]> {
        let bytes = STANDARD.decode(self.0.trim()).map(Zeroizing::new).ok();
        let key = bytes.and_then(|bytes| bytes.as_slice().try_into().ok());
        key.ok_or_else(|| Error::invalid(format!("the key '{id}' is not the base64 of {KEY_BYTES} bytes")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEVENS: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";

    #[test]
    fn what_is_no_keyring_is_refused_without_showing_a_key() {
        for json in [
            "",
            "{}",
            r#"{"current": "a", "keys": {}}"#,
            r#"{"current": "a", "keys": []}"#,
            &format!(r#"{{"current": "a", "keys": {{"a": "{SEVENS}", "a": "{SEVENS}"}}}}"#),
            &format!(r#"{{"current": "a", "keys": {{"a": "{SEVENS}", "b": "{SEVENS}", "b": "{SEVENS}"}}}}"#),
            &format!(r#" ["a", {{"a": "{SEVENS}"}}]"#),
            &format!(r#"{{"current": "b", "keys": {{"a": "{SEVENS}"}}}}"#),
            &format!(r#"{{"current": "a b", "keys": {{"a b": "{SEVENS}"}}}}"#),
            &format!(r#"{{"current": "a", "keys": {{"a": "{SEVENS}AAAA"}}}}"#),
            &format!(r#"{{"current": "a", "keys": {{"a": "{SEVENS}", "b": "BwcH"}}}}"#),
            &format!(r#"{{"current": "a", "keys": {{"a": 7}}, "more": "{SEVENS}"}}"#),
        ] {
            let error = Keyring::from_json(json).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{json}");
            assert!(!format!("{error:?}").contains("BwcH"), "{error:?}");
        }
        let error = Keyring::from_file("/no/such/keyring.json").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn an_id_is_there_once() {
        let ring = Keyring::new("a", [1; 32]).unwrap().with_old("b", [2; 32]).unwrap();
        for id in ["a", "b"] {
            assert_eq!(ring.clone().with_old(id, [3; 32]).unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
    }
}
