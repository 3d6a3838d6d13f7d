//! A new session as Python passes it.

use scratchbook::{CreateSessionConfig, Event};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The request for a new session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSessionRequest {
    session_id: Option<String>,
    #[serde(default)]
    state: Map<String, Value>,
    #[serde(default)]
    events: Vec<Event>,
    /// The treatment of user and app keys in state and events: `written` or, in an imported session, `left`.
    #[serde(default)]
    shared_keys: SharedKeysParam,
    create_time: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SharedKeysParam {
    #[default]
    Written,
    Left,
}

impl From<NewSessionRequest> for CreateSessionConfig {
    fn from(creation: NewSessionRequest) -> Self {
        let mut config = Self::default().with_state(creation.state).with_events(creation.events);
        config.session_id = creation.session_id;
        config.create_time = creation.create_time;
        if let SharedKeysParam::Left = creation.shared_keys {
            config = config.with_shared_keys_left();
        }
        config
    }
}
