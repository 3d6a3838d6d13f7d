//! Tokens of pages. Each identifies its list, so that another list refuses it instead of skipping something.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use scratchbook::{Error, Result};
use serde_json::Value;

/// The tokens of a list.
#[derive(Debug)]
pub(super) struct Tokens {
    /// What tells the list from others.
    list: String,
}

impl Tokens {
    /// Of the list that this describes: whose it is, what is wanted, and in which order.
    pub(super) fn of(list: &Value) -> Self {
        let hash = digest(&SHA256, list.to_string().as_bytes());
        Self { list: URL_SAFE_NO_PAD.encode(hash.as_ref().get(..9).unwrap_or_default()) }
    }

    /// The token that asks for what comes after a place.
    pub(super) fn write(&self, place: &str) -> String {
        URL_SAFE_NO_PAD.encode(format!("{} {place}", self.list))
    }

    /// The place after which a page begins.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a token of another list, and for an invalid one.
    pub(super) fn read(&self, token: &str) -> Result<String> {
        let text = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let place = text.as_deref().and_then(|text| text.strip_prefix(&self.list)?.strip_prefix(' '));
        place.map(str::to_owned).ok_or_else(|| {
            Error::invalid(
                "the pageToken is none that this list has given, with this filter and order; start without one",
            )
        })
    }
}
