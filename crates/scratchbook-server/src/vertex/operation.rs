//! Long-running operations. Each operation is done when it is first returned, so operations are not stored. The number
//! of an operation is derived from what it did.

use ring::digest::{SHA256, digest};
use scratchbook::SessionKey;
use scratchbook::vertex::{SessionResource, timestamp_from_seconds};
use serde_json::{Map, Value, json};

use super::resource_name::EngineNames;

/// What an operation did to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionOperation {
    Create,
    Delete,
}

impl SessionOperation {
    /// Finds an operation of this session by its number.
    pub(super) fn find(key: &SessionKey, number: &str) -> Option<Self> {
        [Self::Create, Self::Delete].into_iter().find(|operation| operation.number(key) == number)
    }

    fn number(self, key: &SessionKey) -> String {
        let what = json!([format!("{self:?}"), key.app_name(), key.session_id()]).to_string();
        let hash = digest(&SHA256, what.as_bytes());
        let bytes = hash.as_ref().iter().take(8);
        // Like Google's numbers, the number fits into a signed integer.
        (bytes.fold(0, |number: u64, byte| number << 8 | u64::from(*byte)) >> 1).to_string()
    }

    fn to_json(self, key: &SessionKey, names: &EngineNames, (metadata, time): (&str, f64), response: Value) -> Value {
        let time = timestamp_from_seconds(time);
        json!({
            "name": names.operation(key.session_id(), &self.number(key)),
            "metadata": {
                "@type": names.type_url(metadata),
                "genericMetadata": {"createTime": time, "updateTime": time},
            },
            "done": true,
            "response": response,
        })
    }
}

/// Returns the operation that created a session.
pub(super) fn created(key: &SessionKey, names: &EngineNames, session: &SessionResource) -> Value {
    let time = session.create_time.or(session.update_time).unwrap_or_default();
    let mut response = Map::from_iter([("@type".to_owned(), names.type_url("Session").into())]);
    if let Value::Object(session) = session.to_json() {
        response.extend(session);
    }
    SessionOperation::Create.to_json(key, names, ("CreateSessionOperationMetadata", time), response.into())
}

/// Returns the operation that deleted a session.
pub(super) fn deleted(key: &SessionKey, names: &EngineNames, now: f64) -> Value {
    let response = json!({"@type": "type.googleapis.com/google.protobuf.Empty"});
    SessionOperation::Delete.to_json(key, names, ("DeleteOperationMetadata", now), response)
}
