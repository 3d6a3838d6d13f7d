//! Page tokens. Each token names its list. Other lists refuse the token, because they would skip entries.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use scratchbook::{Error, Result};
use serde_json::Value;

/// The tokens of a list.
#[derive(Debug)]
pub struct PageTokens {
    /// A description of the list that distinguishes it from others.
    list: String,
}

impl PageTokens {
    /// Returns the tokens of the list that this value describes: its owner, its filters and its order.
    #[must_use]
    pub fn of(list: &Value) -> Self {
        let hash = digest(&SHA256, list.to_string().as_bytes());
        Self { list: URL_SAFE_NO_PAD.encode(hash.as_ref().get(..9).unwrap_or_default()) }
    }

    /// Returns the token of the page that begins after a place.
    #[must_use]
    pub fn write(&self, place: &str) -> String {
        URL_SAFE_NO_PAD.encode(format!("{} {place}", self.list))
    }

    /// Returns the place after which the page of a token begins.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an invalid token, and for a token of another list.
    pub fn read(&self, token: &str) -> Result<String> {
        let text = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let place = text.as_deref().and_then(|text| text.strip_prefix(&self.list)?.strip_prefix(' '));
        place.map(str::to_owned).ok_or_else(|| {
            Error::invalid(
                "the pageToken is none that this list has given, with this filter and order; start without one",
            )
        })
    }
}
