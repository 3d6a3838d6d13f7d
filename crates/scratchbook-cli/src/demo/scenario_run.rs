//! The run of a scenario: it runs agents, shows their events, and checks values.

use std::sync::Arc;

use futures_util::StreamExt;
use scratchbook::state::apply;
use scratchbook::{
    Agent, CreateSessionConfig, Event, GetSessionConfig, RunRequest, Runner, Session, SessionKey, SessionService,
    StateDelta,
};
use serde_json::{Map, Value, json};

use super::state_before::StateBefore;
use crate::failure::Failure;
use crate::output::{BAD, DIM, Format, GOOD, Output, styled, visible};
use crate::show;

/// A scenario in progress.
pub(super) struct ScenarioRun<'a> {
    sessions: &'a Arc<dyn SessionService>,
    out: &'a mut Output,
    record: RunRecord,
}

/// The record of a run, for JSON.
#[derive(Default)]
pub(super) struct RunRecord {
    pub(super) carried_on: Vec<Value>,
    pub(super) events: Vec<Value>,
    pub(super) checks: Vec<Value>,
}

impl RunRecord {
    pub(super) fn different(&self) -> usize {
        self.checks.iter().filter(|check| check["ok"] == false).count()
    }
}

/// A session of a scenario.
pub(super) struct DemoSession {
    pub(super) key: SessionKey,
    /// The state after the events shown so far.
    state: Map<String, Value>,
    /// The number of the last event shown.
    seen: u64,
}

impl<'a> ScenarioRun<'a> {
    pub(super) fn new(sessions: &'a Arc<dyn SessionService>, out: &'a mut Output) -> Self {
        Self { sessions, out, record: RunRecord::default() }
    }

    pub(super) fn finish(self) -> RunRecord {
        self.record
    }

    pub(super) fn sessions(&self) -> &'a Arc<dyn SessionService> {
        self.sessions
    }

    /// Builds a runner on the demo's database.
    pub(super) fn runner(&self, app_name: &str, agent: impl Agent) -> Result<Runner, Failure> {
        Ok(Runner::builder(app_name, agent, Arc::clone(self.sessions)).build()?)
    }

    /// Reads and shows the state of the user and the app that an earlier run left.
    pub(super) async fn before(&mut self, app_name: &str, user_id: &str) -> Result<StateBefore, Failure> {
        let before = StateBefore::read(self.sessions, app_name, user_id).await?;
        if before.keys().is_empty() {
            return Ok(before);
        }
        if self.out.format() == Format::Text {
            let owner = visible(&format!("{app_name}/{user_id}")).into_owned();
            self.out.line(format_args!("\n  {} {owner}", styled(DIM, "carried on from before:")))?;
            show::state(self.out, before.keys())?;
        }
        self.record.carried_on.push(json!({"appName": app_name, "userId": user_id, "state": before.keys()}));
        Ok(before)
    }

    /// Creates a session with a new id and the given state, except for `user:` and `app:` keys that exist already.
    pub(super) async fn begin(&mut self, app_name: &str, user_id: &str, state: Value) -> Result<DemoSession, Failure> {
        let there = StateBefore::read(self.sessions, app_name, user_id).await?;
        let Value::Object(mut given) = state else {
            return Err(
                scratchbook::Error::new(scratchbook::ErrorKind::Internal, "the scenario's state is no object").into()
            );
        };
        given.retain(|key, _| there.get(key).is_none());
        let config = CreateSessionConfig::default().with_state(given);
        let session = self.sessions.create_session(app_name, user_id, config).await?;
        let scene = DemoSession { key: session.key().clone(), state: session.state().to_map(), seen: session.seq() };
        if self.out.format() == Format::Text {
            let key = scene.key.to_string();
            self.out.line(format_args!("\n  {} {}", styled(DIM, "session"), visible(&key)))?;
            show::state(self.out, &scene.state)?;
        }
        Ok(scene)
    }

    /// Sends a message with a delta to the agent, and shows every event of the run.
    pub(super) async fn say(
        &mut self,
        scene: &mut DemoSession,
        runner: &Runner,
        message: &str,
        delta: Value,
    ) -> Result<Vec<Event>, Failure> {
        let delta = StateDelta::try_from(delta)?;
        let request = RunRequest::message(message).with_state_delta(delta.clone());
        let mut run = runner.run(scene.key.user_id(), scene.key.session_id(), request);
        let mut events = Vec::new();
        let mut given = Some(delta);
        while let Some(event) = run.next().await {
            events.push(event?);
            self.catch_up(scene, &mut given).await?;
        }
        Ok(events)
    }

    /// Shows an event that the scenario has appended, with the delta that it sent.
    pub(super) async fn appended(&mut self, scene: &mut DemoSession, sent: StateDelta) -> Result<(), Failure> {
        self.catch_up(scene, &mut Some(sent)).await
    }

    /// Reads the session from the store.
    pub(super) async fn stored(&self, scene: &DemoSession) -> Result<Session, Failure> {
        let session = self.sessions.get_session(&scene.key, &GetSessionConfig::default()).await?;
        session.ok_or_else(|| crate::failure::no_session(&scene.key).into())
    }

    /// Checks that a value is as expected.
    pub(super) fn check(
        &mut self,
        what: &str,
        actual: Option<&Value>,
        expected: impl Into<Value>,
    ) -> Result<(), Failure> {
        self.compare(what, actual, Some(&expected.into()))
    }

    /// Checks that a key is absent, which is not the same as `null`.
    pub(super) fn check_none(&mut self, what: &str, actual: Option<&Value>) -> Result<(), Failure> {
        self.compare(what, actual, None)
    }

    /// Checks that a value is present and as expected, or absent as expected.
    pub(super) fn compare(
        &mut self,
        what: &str,
        actual: Option<&Value>,
        expected: Option<&Value>,
    ) -> Result<(), Failure> {
        let ok = actual == expected;
        if self.out.format() == Format::Text {
            let verdict = if ok { styled(GOOD, "ok       ") } else { styled(BAD, "DIFFERENT") };
            let shown = |value: Option<&Value>| value.map_or_else(|| "absent".to_owned(), show::short);
            let wanted = if ok { String::new() } else { format!(", must be {}", shown(expected)) };
            self.out.line(format_args!("  {verdict}  {what}: {}{wanted}", shown(actual)))?;
        }
        self.record.checks.push(json!({"what": what, "actual": actual, "expected": expected, "ok": ok}));
        Ok(())
    }

    /// Shows the events committed since the last call. `given` is the delta that was sent with the first of them; it may
    /// have `temp:` keys, which are not stored.
    async fn catch_up(&mut self, scene: &mut DemoSession, given: &mut Option<StateDelta>) -> Result<(), Failure> {
        let config = GetSessionConfig::default().with_events_after(scene.seen, usize::MAX);
        let session = self.sessions.get_session(&scene.key, &config).await?;
        for event in session.iter().flat_map(|session| session.events().iter()) {
            scene.seen = event.seq.unwrap_or(scene.seen);
            let before = scene.state.clone();
            apply(&mut scene.state, &event.actions.state_delta);
            let sent = given.take();
            if self.out.format() == Format::Text {
                show::event(self.out, event)?;
                show::delta(self.out, sent.as_ref().unwrap_or(&event.actions.state_delta))?;
                if scene.state != before {
                    show::state(self.out, &scene.state)?;
                }
            }
            self.record.events.push(json!({
                "appName": scene.key.app_name(),
                "userId": scene.key.user_id(),
                "session": scene.key.session_id(),
                "event": event.as_ref(),
                "state": scene.state,
            }));
        }
        Ok(())
    }
}
