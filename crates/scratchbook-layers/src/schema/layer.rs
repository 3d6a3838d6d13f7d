//! The layer that validates writes against a schema.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::StateSchema;
use scratchbook_core::error::Result;
use scratchbook_core::event::Event;
use scratchbook_core::session::{
    AppendOptions, Committed, CreateSessionConfig, PutStateOptions, Session, SessionKey, SessionService, StateOwner,
    forward_sessions,
};
use scratchbook_core::state::{Scope, StateDelta};

/// A layer that validates every write to an app's state against the app's [`StateSchema`].
///
/// A write that breaks the schema fails with `InvalidArgument` and changes nothing, whether it sets the wrong value or
/// an operation computes it. The message names the key, the place in its value, what the schema requires, and the
/// schema's version, but never the value. Values that a delta sets are validated before the store is called. Results
/// that depend on stored data, of an operation or for a schema of a whole scope, are validated in the commit, so they
/// hold even with concurrent writers.
///
/// Older state that breaks the schema stays readable, and only writes to its invalid parts are refused: a key that
/// is set must be valid, and nothing valid may become invalid. When a scope gets its first key, everything that the
/// scope's schema requires must be present.
///
/// Writes that bypass this layer are not validated, and neither is state that a fork copies.
///
/// ```
/// use scratchbook::prelude::*;
/// use scratchbook::layer::{StateSchema, WithStateSchema};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let schema = StateSchema::new(1).with_key("user:cart", json!({"properties": {"total": {"minimum": 0}}}))?;
/// let sessions = WithStateSchema::new(InMemorySessionService::new()).with_app("shop", schema);
/// let mut session = sessions.create_session("shop", "alice", Default::default()).await?;
///
/// let delta = StateDelta::new().with("user:cart", json!({"total": -1}))?;
/// let error = sessions.append_event(&mut session, Event::new("till").with_state_delta(delta)).await.unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidArgument);
/// assert_eq!(
///     error.to_string(),
///     "'user:cart' breaks version 1 of the state's schema at /total: the value is less than the minimum of 0",
/// );
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct WithStateSchema<S> {
    service: S,
    apps: HashMap<String, Arc<StateSchema>>,
}

impl<S> WithStateSchema<S> {
    /// Creates a layer that validates nothing yet.
    #[must_use]
    pub fn new(service: S) -> Self {
        Self { service, apps: HashMap::new() }
    }

    /// Validates an app's state against a schema. It replaces an earlier schema of the app.
    #[must_use]
    pub fn with_app(mut self, app_name: impl Into<String>, schema: StateSchema) -> Self {
        self.apps.insert(app_name.into(), Arc::new(schema));
        self
    }

    fn schema(&self, app_name: &str) -> Option<&Arc<StateSchema>> {
        self.apps.get(app_name)
    }
}

/// Validates the values that a creation sets, including those of its events.
fn check_creation(schema: &StateSchema, config: &CreateSessionConfig) -> Result<()> {
    // The service refuses a state that is not an object.
    for (key, value) in config.state.as_object().into_iter().flatten() {
        let (scope, name) = Scope::split(key);
        schema.check_value(scope, name, Some(value))?;
    }
    let events = config.events.iter().filter(|event| !event.is_partial());
    events.into_iter().try_for_each(|event| schema.check_delta(&event.actions.state_delta))
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: SessionService> SessionService for WithStateSchema<S> {
    forward_sessions!(self.service =>
        capabilities, get_session, get_initial_state, get_state_at, blame, fork_session, list_state, list_feed, commits,
        update_session, prune, list_sessions, locate_session, delete_session, get_state, state_bytes, list_state_changes,
        list_event_hashes, list_owners, delete_user, check_writable, close);

    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let config = match self.schema(app_name) {
            Some(schema) => {
                check_creation(schema, &config)?;
                config.with_check(Arc::<StateSchema>::clone(schema))
            }
            None => config,
        };
        self.service.create_session(app_name, user_id, config).await
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        let options = match self.schema(key.app_name()).filter(|_| !event.is_partial()) {
            Some(schema) => {
                schema.check_delta(&event.actions.state_delta)?;
                options.with_check(Arc::<StateSchema>::clone(schema))
            }
            None => options,
        };
        self.service.append(key, event, options).await
    }

    async fn put_state(&self, owner: &StateOwner, delta: StateDelta, options: PutStateOptions) -> Result<u64> {
        let options = match self.schema(owner.app_name()) {
            Some(schema) => {
                let scope = if owner.user_id().is_some() { Scope::User } else { Scope::App };
                delta.iter().try_for_each(|(name, change)| schema.check_value(scope, name, change.value()))?;
                options.with_check(Arc::<StateSchema>::clone(schema))
            }
            None => options,
        };
        self.service.put_state(owner, delta, options).await
    }
}
