//! The addresses of the pages. Each view has its own address, which can be shared.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use scratchbook::SessionKey;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::surface::INSPECTOR;

/// The characters that are encoded in addresses: all except the unreserved ones of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~').remove(b'.');

/// The maximum length of a text in an address, in bytes, which is the limit for a key as well.
const TEXT: usize = 1 << 10;

/// The parameters in the address of a session's page: they say what the page shows.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct PageView {
    /// The event at which the state is shown; if absent, the current state is shown.
    pub(super) at: Option<u64>,
    /// The event with which that state is compared; if absent, the event before `at`.
    pub(super) with: Option<u64>,
    /// The key whose history is shown.
    #[serde(default, deserialize_with = "short")]
    pub(super) key: Option<String>,
    /// Show only keys with this text in their names.
    #[serde(default, deserialize_with = "short")]
    pub(super) find: Option<String>,
    /// Show the page of keys that begins after this key.
    #[serde(default, deserialize_with = "short")]
    pub(super) after: Option<String>,
    /// Show only events before this one.
    pub(super) before: Option<u64>,
    /// Show only writes to the key before this place: the number of an event or, for a key of the user or the app, a
    /// position in its log.
    pub(super) written_before: Option<u64>,
}

/// Reads a text of an address. The text has to be short, since each link of a page repeats it.
fn short<'de, D: Deserializer<'de>>(text: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(text)?;
    match &text {
        Some(long) if long.len() > TEXT => Err(D::Error::custom(format!("a text has more than {TEXT} bytes"))),
        _ => Ok(text),
    }
}

impl PageView {
    pub(super) fn at(seq: u64) -> Self {
        Self { at: Some(seq), ..Self::default() }
    }

    /// Returns the same view at another event.
    pub(super) fn moved_to(&self, seq: u64) -> Self {
        Self { at: Some(seq), key: self.key.clone(), find: self.find.clone(), ..Self::default() }
    }

    /// Returns the same view with the history of a key.
    pub(super) fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), before: None, written_before: None, ..self.clone() }
    }

    /// Removes empty texts, since a form sends an empty field for an absent value.
    pub(super) fn cleaned(mut self) -> Self {
        self.find = self.find.filter(|find| !find.is_empty());
        self
    }

    fn query(&self) -> String {
        let number = |name, value: Option<u64>| value.map(|value| format!("{name}={value}"));
        let text = |name, value: &Option<String>| value.as_deref().map(|value| format!("{name}={}", encoded(value)));
        let fields = [
            number("at", self.at),
            number("with", self.with),
            text("key", &self.key),
            text("find", &self.find),
            text("after", &self.after),
            number("before", self.before),
            number("written_before", self.written_before),
        ];
        let fields: Vec<_> = fields.into_iter().flatten().collect();
        if fields.is_empty() { String::new() } else { format!("?{}", fields.join("&")) }
    }
}

pub(super) fn app(app_name: &str) -> String {
    format!("{INSPECTOR}/apps/{}", encoded(app_name))
}

pub(super) fn users(app_name: &str) -> String {
    format!("{}/users", app(app_name))
}

pub(super) fn user(app_name: &str, user_id: &str) -> String {
    format!("{}/{}", users(app_name), encoded(user_id))
}

/// Returns the address of a session's page.
pub(super) fn session(key: &SessionKey, view: &PageView) -> String {
    format!("{}{}", folder(key), view.query())
}

/// Returns the page that shows what a write to a session conflicts with. If the write conflicts in a key, the page
/// shows the key's history.
pub(crate) fn of_conflict(session_key: &SessionKey, key: Option<&str>) -> String {
    session(session_key, &PageView { key: key.map(str::to_owned), ..PageView::default() })
}

/// Returns the address of the timeline of a run, near one of its events.
pub(super) fn run(key: &SessionKey, run: &str, at: u64) -> String {
    format!("{}/runs?run={}&at={at}", folder(key), encoded(run))
}

/// Returns the address of a part of a session's page.
pub(super) fn part(key: &SessionKey, part: &str, view: &PageView) -> String {
    format!("{}/{part}{}", folder(key), view.query())
}

fn folder(key: &SessionKey) -> String {
    format!("{}/sessions/{}", user(key.app_name(), key.user_id()), encoded(key.session_id()))
}

/// Encodes a name or a value for a path or a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_an_address_of_its_own() {
        let key = SessionKey::new("shop", "al ice", "s/1").unwrap();
        assert_eq!(session(&key, &PageView::default()), "/inspector/apps/shop/users/al%20ice/sessions/s%2F1");
        let view = PageView::at(17).with_key("user:tier");
        assert_eq!(session(&key, &view), "/inspector/apps/shop/users/al%20ice/sessions/s%2F1?at=17&key=user%3Atier");
        assert!(part(&key, "state", &view.moved_to(3)).ends_with("/sessions/s%2F1/state?at=3&key=user%3Atier"));
    }
}
