//! The record of a scenario: a store that records all creations and appends, and the checks in between.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use scratchbook::session::{Committed, forward_sessions};
use scratchbook::state::apply;
use scratchbook::{
    AppendOptions, CreateSessionConfig, Event, Result, Scope, Session, SessionKey, SessionService, StateDelta,
};
use serde_json::{Map, Value, json};

use crate::output::{BAD, DIM, GOOD, Output, styled, visible};
use crate::shared_state::shared_state;
use crate::show;

/// A store that records what a scenario does.
#[derive(Debug)]
pub(super) struct ScenarioRecorder {
    sessions: Arc<dyn SessionService>,
    record: Mutex<ScenarioRecord>,
}

/// The steps of a scenario so far.
#[derive(Debug, Default)]
struct ScenarioRecord {
    steps: Vec<ScenarioStep>,
    /// The state of each session after its last event.
    states: HashMap<SessionKey, Map<String, Value>>,
}

/// A step of a scenario.
#[derive(Debug)]
pub(super) enum ScenarioStep {
    /// The state of a user and the app after an earlier run, with prefixes.
    CarriedOn { app_name: String, user_id: String, state: Map<String, Value> },
    /// A session with its initial state.
    Session { key: SessionKey, state: Map<String, Value> },
    /// An event, its delta as committed together with the `temp:` keys that were sent, and the state after the event.
    Event { key: SessionKey, event: Arc<Event>, delta: StateDelta, state: Map<String, Value>, has_changed: bool },
    /// A value that was found, and the expected one.
    Check { what: String, found: Option<Value>, expected: Option<Value> },
}

impl ScenarioRecorder {
    pub(super) fn new(sessions: &Arc<dyn SessionService>) -> Self {
        Self { sessions: Arc::clone(sessions), record: Mutex::default() }
    }

    /// Records the state that an earlier run has left, if there is any.
    pub(super) async fn carry_on(&self, app_name: &str, user_id: &str) -> Result<()> {
        let state = shared_state(&self.sessions, app_name, user_id).await?;
        if !state.is_empty() {
            let (app_name, user_id) = (app_name.to_owned(), user_id.to_owned());
            self.record().steps.push(ScenarioStep::CarriedOn { app_name, user_id, state });
        }
        Ok(())
    }

    pub(super) fn check(&self, what: &str, found: Option<&Value>, expected: Option<&Value>) {
        let (found, expected) = (found.cloned(), expected.cloned());
        self.record().steps.push(ScenarioStep::Check { what: what.to_owned(), found, expected });
    }

    /// Takes the steps recorded so far.
    pub(super) fn take_steps(&self) -> Vec<ScenarioStep> {
        std::mem::take(&mut self.record().steps)
    }

    fn record(&self) -> MutexGuard<'_, ScenarioRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SessionService for ScenarioRecorder {
    forward_sessions!(self.sessions =>
        capabilities, get_session, get_initial_state, get_state_at, blame, fork_session, list_state, list_feed, commits,
        update_session, prune, list_sessions, locate_session, delete_session, get_state, state_bytes, put_state,
        list_state_changes, list_event_hashes, list_owners, delete_user, check_writable, close);

    async fn create_session(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        let session = self.sessions.create_session(app_name, user_id, config).await?;
        let (key, state) = (session.key().clone(), session.state().to_map());
        let mut record = self.record();
        record.states.insert(key.clone(), state.clone());
        record.steps.push(ScenarioStep::Session { key, state });
        Ok(session)
    }

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        let mut temporary = event.actions.state_delta.clone();
        temporary.retain(|key| Scope::split(key).0 == Scope::Temp);
        let committed = self.sessions.append(key, event, options).await?;
        let mut delta = committed.event.actions.state_delta.clone();
        delta.merge(temporary)?;
        let mut record = self.record();
        let state = record.states.entry(key.clone()).or_default();
        let before = state.clone();
        apply(state, &committed.event.actions.state_delta);
        let (state, has_changed) = (state.clone(), *state != before);
        record.steps.push(ScenarioStep::Event {
            key: key.clone(),
            event: Arc::clone(&committed.event),
            delta,
            state,
            has_changed,
        });
        Ok(committed)
    }
}

impl ScenarioStep {
    /// Returns whether a value differs from the expected one. An absent key differs from `null`.
    pub(super) fn is_different(&self) -> bool {
        matches!(self, Self::Check { found, expected, .. } if found != expected)
    }

    pub(super) fn print(&self, out: &mut Output) -> io::Result<()> {
        match self {
            Self::CarriedOn { app_name, user_id, state } => {
                let owner = format!("{app_name}/{user_id}");
                out.line(format_args!("\n  {} {}", styled(DIM, "carried on from before:"), visible(&owner)))?;
                show::state(out, state)
            }
            Self::Session { key, state } => {
                out.line(format_args!("\n  {} {}", styled(DIM, "session"), visible(&key.to_string())))?;
                show::state(out, state)
            }
            Self::Event { event, delta, state, has_changed, .. } => {
                show::event(out, event)?;
                show::delta(out, delta)?;
                if *has_changed { show::state(out, state) } else { Ok(()) }
            }
            Self::Check { what, found, expected } => {
                let shown = |value: &Option<Value>| value.as_ref().map_or_else(|| "absent".to_owned(), show::short);
                let (verdict, wanted) = if self.is_different() {
                    (styled(BAD, "DIFFERENT"), format!(", must be {}", shown(expected)))
                } else {
                    (styled(GOOD, "ok       "), String::new())
                };
                out.line(format_args!("  {verdict}  {what}: {}{wanted}", shown(found)))
            }
        }
    }

    /// Returns the step as JSON, and the name of the scenario's list that it belongs to.
    fn json(&self) -> Option<(&'static str, Value)> {
        Some(match self {
            Self::CarriedOn { app_name, user_id, state } => {
                ("carriedOn", json!({"appName": app_name, "userId": user_id, "state": state}))
            }
            Self::Session { .. } => return None,
            Self::Event { key, event, state, .. } => {
                let (app_name, user_id, session_id) = (key.app_name(), key.user_id(), key.session_id());
                let event = event.as_ref();
                let shown = json!({
                    "appName": app_name, "userId": user_id, "session": session_id, "event": event, "state": state,
                });
                ("events", shown)
            }
            Self::Check { what, found, expected } => {
                let is_ok = !self.is_different();
                ("checks", json!({"what": what, "actual": found, "expected": expected, "ok": is_ok}))
            }
        })
    }
}

/// Returns a scenario as JSON.
pub(super) fn as_json(name: &str, steps: &[ScenarioStep]) -> Value {
    let list = |list: &str| {
        let shown = steps.iter().filter_map(ScenarioStep::json).filter(|(its, _)| *its == list);
        shown.map(|(_, value)| value).collect::<Vec<_>>()
    };
    json!({"name": name, "carriedOn": list("carriedOn"), "events": list("events"), "checks": list("checks")})
}
