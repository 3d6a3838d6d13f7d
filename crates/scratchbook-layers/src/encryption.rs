//! Encrypts values, events and artifacts before they reach a store: XChaCha20-Poly1305, with keys selected by id.

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac};
use serde_json::Value;
use sha2::Sha256;

use super::codec::{Codec, Coded, Encoded, Location};
use super::keyring::{DerivedKeys, Keyring, is_key_id};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::session::Session;

const NONCE_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// The version of the format of the encrypted bytes.
const VERSION: &str = "1";

/// A layer that encrypts everything: values in all scopes, the contents of events, artifacts with their metadata,
/// titles of sessions, and values of labels.
///
/// The store sees names unencrypted, because it needs them: ids of apps, users, sessions and events, authors,
/// invocation ids, branches, times, and the names of keys, labels and artifacts. Encrypted data is bound to its
/// location: a value copied to another key or user of the database is reported as `DataCorrupted`, and so is a changed
/// author or time of an event. The order of a session's events is not bound, because the store numbers them after
/// they are encrypted.
///
/// The layer sets the time of an event that has none. Equal contents look different in every event and session.
///
/// This layer executes operations itself: a write with operations reads first, and is retried if another writer was
/// faster. Encrypted values are about a third longer, plus some hundred bytes: see [`sealed_limits`].
///
/// The layer also searches for titles and labels: it reads sessions from the store page by page and decrypts them,
/// so a page may have fewer sessions than requested. The store's limits apply to encrypted titles and labels, so a
/// title can have about 1,400 bytes, and the value of a label about 300.
///
/// Put this layer inside `WithCompression`, because encrypted data cannot be compressed.
///
/// ```
/// use scratchbook::prelude::*;
/// use scratchbook::layer::{Keyring, WithEncryption};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let store = std::sync::Arc::new(InMemorySessionService::new());
/// let keys = Keyring::new("2026-11", [7; 32])?;
/// let sessions = WithEncryption::new(store.clone(), keys);
///
/// let config = CreateSessionConfig::default().with_state(json!({"user:diagnosis": "flu"}));
/// let session = sessions.create_session("clinic", "alice", config).await?;
/// assert_eq!(session.state().get("user:diagnosis"), Some(&json!("flu")));
///
/// let stored = store.get_user_state("clinic", "alice").await?;
/// assert!(stored["diagnosis"].as_str().unwrap().starts_with("scratchbook:sealed:1:2026-11:"));
/// # Ok(()) }
/// ```
pub type WithEncryption<S> = Coded<S, Encryption>;

impl<S> Coded<S, Encryption> {
    /// Encrypts the data that is written to a service for sessions or artifacts. Data that was stored unencrypted
    /// before stays readable.
    #[must_use]
    pub fn new(service: S, keys: Keyring) -> Self {
        Self::around(service, Encryption { keys, plain: PlainValues::default() })
    }

    /// Does the same as `new`, and sets whether unencrypted data is read or refused.
    #[must_use]
    pub fn new_with(service: S, keys: Keyring, plain: PlainValues) -> Self {
        Self::around(service, Encryption { keys, plain })
    }
}

/// How stored data that is not encrypted is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlainValues {
    /// It is read, because it may be from before encryption was introduced. Anybody who can write to the database can
    /// put such data there.
    #[default]
    Read,
    /// It is refused as `DataCorrupted`.
    Refused,
}

/// Returns the limits that a store needs, so that encrypted data fits if the original keeps to the given limits.
///
/// ```
/// use scratchbook::prelude::*;
/// use scratchbook::layer::{Keyring, WithEncryption, sealed_limits};
///
/// # fn main() -> Result<()> {
/// let limits = Limits::default().with_value_bytes(1 << 20);
/// let store = InMemorySessionService::new().with_limits(sealed_limits(limits));
/// let sessions = WithEncryption::new(store, Keyring::new("2026-11", [7; 32])?).with_limits(limits);
/// # Ok(()) }
/// ```
#[must_use]
pub fn sealed_limits(mut limits: Limits) -> Limits {
    // Base64 adds a third, and each of many small values may grow by some hundred bytes.
    let room = |bytes: u64| bytes.saturating_mul(2).saturating_add(4 << 20);
    limits.value_bytes = room(limits.value_bytes);
    limits.delta_bytes = room(limits.delta_bytes);
    limits.event_bytes = room(limits.event_bytes);
    limits.artifact_bytes = room(limits.artifact_bytes);
    limits.artifact_metadata_bytes = room(limits.artifact_metadata_bytes);
    limits
}

/// Returns the id of the key that encrypted something in a session, if anything is encrypted. The session has to be
/// read without [`WithEncryption`]. A program can find out in this way whether it lacks a key.
///
/// This is a hint and not a proof: anybody who may write to the store can write a text that looks encrypted, without
/// having a key.
///
/// ```
/// use scratchbook::prelude::*;
/// use scratchbook::layer::{Keyring, WithEncryption, sealed_by};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let store = std::sync::Arc::new(InMemorySessionService::new());
/// let sessions = WithEncryption::new(store.clone(), Keyring::new("2026-11", [7; 32])?);
/// let config = CreateSessionConfig::default().with_state(json!({"diagnosis": "flu"}));
/// let session = sessions.create_session("clinic", "alice", config).await?;
/// assert_eq!(sealed_by(&session), None);
///
/// let stored = store.get_session(session.key(), &Default::default()).await?.unwrap();
/// assert_eq!(sealed_by(&stored), Some("2026-11".to_owned()));
/// # Ok(()) }
/// ```
#[must_use]
pub fn sealed_by(session: &Session) -> Option<String> {
    let events = session.events().iter().rev().filter_map(|event| event.extra().get(Encryption::FIELD));
    let values = session.state().iter().map(|(_, value)| value);
    let texts = events.chain(values).filter_map(Value::as_str);
    texts.chain(session.title()).chain(session.labels().values().map(String::as_str)).find_map(sealed_text)
}

/// Returns the key id of an encrypted text. The text must be long enough for a nonce and a tag, so that other texts
/// with the same beginning are not mistaken for an encrypted one.
fn sealed_text(text: &str) -> Option<String> {
    let encoded = Encoded::from_text(text.strip_prefix(Encryption::MARK)?)?;
    let id = key_id(&encoded).filter(|id| is_key_id(id))?;
    (encoded.body.len() >= NONCE_BYTES + TAG_BYTES).then(|| id.to_owned())
}

/// The encoding, with its keys.
#[derive(Debug)]
pub struct Encryption {
    pub(super) keys: Keyring,
    plain: PlainValues,
}

impl Codec for Encryption {
    const MARK: &'static str = "scratchbook:sealed:";
    const FIELD: &'static str = "scratchbookSealed";
    const MIME_TYPE: &'static str = "application/vnd.scratchbook.sealed";
    const OF_METADATA: bool = true;
    const BINDS: bool = true;

    fn wants(&self, _: usize) -> bool {
        true
    }

    fn keeps(&self, _: usize, _: usize) -> bool {
        true
    }

    fn encode(&self, plain: &[u8], location: &Location<'_>, salt: &[u8]) -> Result<Encoded> {
        let (key, location) = (self.keys.sealing(), location.to_bytes());
        let nonce = nonce(key, &location, salt, plain)?;
        let sealed = cipher(key).encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: &location });
        let sealed = sealed.map_err(|e| Error::internal("a value cannot be sealed").with_source(e))?;
        let mut body = nonce.to_vec();
        body.extend(sealed);
        Ok(Encoded { header: format!("{VERSION}:{}", key.id), body })
    }

    fn decode(&self, encoded: &Encoded, location: &Location<'_>) -> Result<Vec<u8>> {
        let id = key_id(encoded).ok_or_else(|| tampered(location))?;
        let key = self.keys.key(id).ok_or_else(|| {
            let message =
                format!("{location} is sealed by the key '{id}', which is not in the keyring; add it as an old one");
            Error::new(ErrorKind::FailedPrecondition, message).for_operator()
        })?;
        let (nonce, sealed) = encoded.body.split_first_chunk::<NONCE_BYTES>().ok_or_else(|| tampered(location))?;
        let payload = Payload { msg: sealed, aad: &location.to_bytes() };
        cipher(key).decrypt(&XNonce::from(*nonce), payload).map_err(|_| tampered(location))
    }

    fn check_plain(&self, location: &Location<'_>) -> Result<()> {
        match self.plain {
            PlainValues::Read => Ok(()),
            PlainValues::Refused => Err(Error::corrupted(format!(
                "{location} is stored in the clear, which PlainValues::Refused does not allow; write it again, or read plain \
                 values"
            ))),
        }
    }
}

/// Returns the id of the key that encrypted something.
pub(super) fn key_id(encoded: &Encoded) -> Option<&str> {
    encoded.header.strip_prefix(VERSION)?.strip_prefix(':')
}

fn cipher(key: &DerivedKeys) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new((&*key.sealing).into())
}

/// Returns a synthetic IV, as in RFC 5297. The same bytes with the same salt at the same location have the same nonce,
/// so that a retry has the same encrypted form; all others have different nonces. The nonce is stored with the
/// encrypted bytes, so decrypting needs none of the inputs of the nonce.
fn nonce(key: &DerivedKeys, location: &[u8], salt: &[u8], plain: &[u8]) -> Result<[u8; NONCE_BYTES]> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&*key.nonces)
        .map_err(|e| Error::internal("a key of the wrong length").with_source(e))?;
    for part in [location, salt, plain] {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    let whole: [u8; 32] = mac.finalize().into_bytes().into();
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(&whole[..NONCE_BYTES]);
    Ok(nonce)
}

fn tampered(location: &Location<'_>) -> Error {
    Error::corrupted(format!(
        "{location} cannot be opened: it was changed or moved outside of scratchbook, or its key is another one with the same \
         id"
    ))
}
