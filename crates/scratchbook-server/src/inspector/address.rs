//! The addresses of the pages. Each view has one, which can be shared.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use scratchbook::SessionKey;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// The path of the first page.
pub(crate) const ROOT: &str = "/inspector";

/// What is encoded in addresses: all but what RFC 3986 leaves unreserved.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~').remove(b'.');

/// The most bytes of a text in an address: as many as a key may have.
const TEXT: usize = 1 << 10;

/// What a page about a session shows, as its address says it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct View {
    /// The event at which the state is shown; now, if absent.
    pub(super) at: Option<u64>,
    /// The event that it is compared with; the one before it, if absent.
    pub(super) with: Option<u64>,
    /// The key whose history is shown.
    #[serde(default, deserialize_with = "short")]
    pub(super) key: Option<String>,
    /// Only keys with this text in their names.
    #[serde(default, deserialize_with = "short")]
    pub(super) find: Option<String>,
    /// Only keys after this one: a page of them.
    #[serde(default, deserialize_with = "short")]
    pub(super) after: Option<String>,
    /// Only what comes before this place: earlier events, or earlier writes to the key.
    #[serde(default)]
    pub(super) before: Option<u64>,
}

/// A text of an address. Each link of a page repeats it.
fn short<'de, D: Deserializer<'de>>(text: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(text)?;
    match &text {
        Some(long) if long.len() > TEXT => Err(D::Error::custom(format!("a text has more than {TEXT} bytes"))),
        _ => Ok(text),
    }
}

impl View {
    pub(super) fn at(seq: u64) -> Self {
        Self { at: Some(seq), ..Self::default() }
    }

    /// The same view at another event.
    pub(super) fn moved_to(&self, seq: u64) -> Self {
        Self { at: Some(seq), key: self.key.clone(), find: self.find.clone(), ..Self::default() }
    }

    /// The same view with the history of a key.
    pub(super) fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), before: None, ..self.clone() }
    }

    /// A form sends empty fields for what is absent.
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
        ];
        let fields: Vec<_> = fields.into_iter().flatten().collect();
        if fields.is_empty() { String::new() } else { format!("?{}", fields.join("&")) }
    }
}

pub(super) fn app(app_name: &str) -> String {
    format!("{ROOT}/apps/{}", encoded(app_name))
}

pub(super) fn users(app_name: &str) -> String {
    format!("{}/users", app(app_name))
}

pub(super) fn user(app_name: &str, user_id: &str) -> String {
    format!("{}/{}", users(app_name), encoded(user_id))
}

/// The page of a session.
pub(super) fn session(key: &SessionKey, view: &View) -> String {
    format!("{}{}", folder(key), view.query())
}

/// The page that shows what is in the way of a write to a session: the key's history, if a key is.
pub(crate) fn of_conflict(session_key: &SessionKey, key: Option<&str>) -> String {
    session(session_key, &View { key: key.map(str::to_owned), ..View::default() })
}

/// The timeline of a run, near one of its events.
pub(super) fn run(key: &SessionKey, run: &str, at: u64) -> String {
    format!("{}/runs?run={}&at={at}", folder(key), encoded(run))
}

/// A part of a session's page.
pub(super) fn part(key: &SessionKey, part: &str, view: &View) -> String {
    format!("{}/{part}{}", folder(key), view.query())
}

fn folder(key: &SessionKey) -> String {
    format!("{}/sessions/{}", user(key.app_name(), key.user_id()), encoded(key.session_id()))
}

/// A name or a value, for a path or a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_an_address_of_its_own() {
        let key = SessionKey::new("shop", "al ice", "s/1").unwrap();
        assert_eq!(session(&key, &View::default()), "/inspector/apps/shop/users/al%20ice/sessions/s%2F1");
        let view = View::at(17).with_key("user:tier");
        assert_eq!(session(&key, &view), "/inspector/apps/shop/users/al%20ice/sessions/s%2F1?at=17&key=user%3Atier");
        assert!(part(&key, "state", &view.moved_to(3)).ends_with("/sessions/s%2F1/state?at=3&key=user%3Atier"));
    }
}
