//! Sessions as a resource of the API.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::message::{Message, UnknownFields};
use super::{duration_from_text, seconds_from_timestamp, timestamp_from_seconds};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::session::{Expiry, Session};

const FIELDS: &[&str] =
    &["name", "createTime", "updateTime", "displayName", "labels", "sessionState", "userId", "expireTime", "ttl"];

/// A session in the form of the API. An absent field was not sent, or is not returned.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SessionResource {
    /// The full name, `projects/P/locations/L/reasoningEngines/E/sessions/S`.
    pub name: Option<String>,
    /// The user.
    pub user_id: Option<String>,
    /// The session's title, for people.
    pub display_name: Option<String>,
    /// The session's labels, for programs.
    pub labels: Option<BTreeMap<String, String>>,
    /// The merged state. Its keys have their prefixes.
    pub session_state: Option<Map<String, Value>>,
    /// When it expires: `expireTime`, or `ttl` in requests.
    pub expiry: Option<Expiry>,
    /// The time of creation, in seconds since 1970.
    pub create_time: Option<f64>,
    /// The time of the last append, in seconds since 1970.
    pub update_time: Option<f64>,
}

impl SessionResource {
    /// Converts a session of ours, with its full name.
    #[must_use]
    pub fn new(session: &Session, name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            user_id: Some(session.user_id().to_owned()),
            display_name: session.title().map(str::to_owned),
            labels: Some(session.labels().clone()),
            session_state: Some(session.state().to_map()),
            expiry: session.expire_time().map(Expiry::At),
            create_time: session.create_time(),
            update_time: Some(session.last_update_time()),
        }
    }

    /// Reads a session from a request.
    ///
    /// ```
    /// use scratchbook::vertex::SessionResource;
    /// use serde_json::json;
    ///
    /// let sent = json!({"userId": "u1", "session_state": {"user:theme": "light"}, "ttl": "7200s"});
    /// let session = SessionResource::from_json(sent)?;
    /// assert_eq!(session.user_id.as_deref(), Some("u1"));
    /// # Ok::<(), scratchbook::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there are unknown fields, values of the wrong type, invalid times, or both `ttl` and
    /// `expireTime`.
    pub fn from_json(value: Value) -> Result<Self> {
        let mut fields = Message::new(value, "the session", FIELDS, UnknownFields::Refused)?;
        let mut time = |name: &str| -> Result<Option<f64>> {
            let text = fields.text(name)?;
            text.map(|text| seconds_from_timestamp(&text).map_err(|e| e.context(name))).transpose()
        };
        let (create_time, update_time, expire_time) = (time("createTime")?, time("updateTime")?, time("expireTime")?);
        let ttl = fields.text("ttl")?;
        let ttl = ttl.map(|text| duration_from_text(&text).map_err(|e| e.context("ttl"))).transpose()?;
        let expiry = match (expire_time, ttl) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("expireTime and ttl are two ways to say one thing; send one of them"));
            }
            (at, span) => at.map(Expiry::At).or(span.map(Expiry::After)),
        };
        Ok(Self {
            name: fields.text("name")?,
            user_id: fields.text("userId")?,
            display_name: fields.text("displayName")?,
            labels: fields.texts("labels")?,
            session_state: fields.object("sessionState")?,
            expiry,
            create_time,
            update_time,
        })
    }

    /// Writes the session as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut out = Map::new();
        let mut put = |name: &str, value: Option<Value>| value.map(|value| out.insert(name.to_owned(), value));
        put("name", self.name.as_deref().map(Value::from));
        put("createTime", self.create_time.map(|time| timestamp_from_seconds(time).into()));
        put("updateTime", self.update_time.map(|time| timestamp_from_seconds(time).into()));
        put("displayName", self.display_name.as_deref().map(Value::from));
        put("labels", self.labels.as_ref().filter(|labels| !labels.is_empty()).map(|labels| json!(labels)));
        put("sessionState", self.session_state.clone().map(Value::Object));
        put("userId", self.user_id.as_deref().map(Value::from));
        match self.expiry {
            Some(Expiry::At(seconds)) => put("expireTime", Some(timestamp_from_seconds(seconds).into())),
            Some(Expiry::After(span)) => put("ttl", Some(format!("{}s", span.as_secs_f64()).into())),
            None => None,
        };
        Value::Object(out)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_session_comes_back_as_it_was_sent() {
        for sent in [
            json!({"name": "n", "createTime": "2026-11-20T17:10:22.609355Z", "updateTime": "2026-11-20T17:10:23.227208Z",
                   "displayName": "Hi", "labels": {"env": "test"}, "sessionState": {"cart": [], "n": null}, "userId": "u",
                   "expireTime": "2027-01-01T00:00:00.000000Z"}),
            json!({"userId": "u", "ttl": "7200s"}),
            json!({"userId": "u", "ttl": "0.25s"}),
        ] {
            assert_eq!(SessionResource::from_json(sent.clone()).unwrap().to_json(), sent);
        }
    }

    #[test]
    fn an_expiry_is_said_in_one_way() {
        let read = |value| SessionResource::from_json(value).map(|session| session.expiry);
        assert_eq!(read(json!({"ttl": "2s"})).unwrap(), Some(Expiry::After(Duration::from_secs(2))));
        assert!(read(json!({"ttl": "2s", "expireTime": "2027-01-01T00:00:00Z"})).is_err());
        assert!(read(json!({"ttl": "2"})).unwrap_err().to_string().starts_with("ttl: "));
        assert!(read(json!({"expire_time": "soon"})).is_err() && read(json!({"ttl": 2})).is_err());
    }
}
