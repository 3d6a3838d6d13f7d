//! The encoded form as text and as bytes, and encoded values.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::{Codec, Coder, Location};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::json;

/// Encoded data: the bytes, and a header that says how to decode them. The header has no `:` at either end.
#[derive(Debug)]
pub struct Encoded {
    pub(crate) header: String,
    pub(crate) body: Vec<u8>,
}

impl Encoded {
    /// Returns the encoded form as text: `MARK header:base64`.
    pub(super) fn to_text(&self, mark: &str) -> String {
        let mut text = format!("{mark}{}:", self.header);
        URL_SAFE_NO_PAD.encode_string(&self.body, &mut text);
        text
    }

    /// Reads the text after the mark; `None` if it is invalid.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let (header, body) = text.rsplit_once(':')?;
        Some(Self { header: header.to_owned(), body: URL_SAFE_NO_PAD.decode(body).ok()? })
    }

    /// Returns the encoded form as bytes, without base64.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.header.into_bytes();
        bytes.push(0);
        bytes.extend(self.body);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let header = std::str::from_utf8(&bytes[..end]).ok()?.to_owned();
        Some(Self { header, body: bytes[end + 1..].to_vec() })
    }
}

/// Returns the part of a text after an encoding's mark.
pub(crate) fn marked<C: Codec>(value: &Value) -> Option<&str> {
    value.as_str()?.strip_prefix(C::MARK)
}

impl<C: Codec> Coder<C> {
    /// Encodes a value.
    pub(crate) fn encode_value(&self, value: &Value, location: &Location<'_>, salt: &[u8]) -> Result<Value> {
        let text = json::to_text(value, "a value")?;
        // A value that looks encoded is encoded again, so that it is returned unchanged.
        let looks_encoded = marked::<C>(value).is_some();
        if !looks_encoded && !self.0.wants(text.len()) {
            return Ok(value.clone());
        }
        let encoded = self.0.encode(text.as_bytes(), location, salt)?.to_text(C::MARK);
        let keeps = looks_encoded || self.0.keeps(text.len(), encoded.len());
        Ok(if keeps { Value::String(encoded) } else { value.clone() })
    }

    /// Decodes a value.
    pub(crate) fn decode_value<'v>(&self, stored: &'v Value, location: &Location<'_>) -> Result<Cow<'v, Value>> {
        let Some(text) = marked::<C>(stored) else {
            self.0.check_plain(location)?;
            return Ok(Cow::Borrowed(stored));
        };
        let plain = self.decode_text(text, location)?;
        let value = serde_json::from_slice(&plain).map_err(|_| unreadable(location))?;
        Ok(Cow::Owned(value))
    }

    pub(super) fn decode_text(&self, text: &str, location: &Location<'_>) -> Result<Vec<u8>> {
        self.0.decode(&Encoded::from_text(text).ok_or_else(|| unreadable(location))?, location)
    }
}

/// Returns the error for data in an unknown form. Its cause is left out, because it would show a part of the value.
pub(crate) fn unreadable(location: &Location<'_>) -> Error {
    Error::corrupted(format!("{location} is stored in a form that cannot be read; restore it from a backup"))
}
