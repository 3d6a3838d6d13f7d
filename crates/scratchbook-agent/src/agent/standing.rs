//! Where an agent stands in a run: what it tells of it, and what it finds of it when the run is taken up again.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::InvocationContext;
use super::resume::Past;
use scratchbook_core::event::Event;

impl InvocationContext {
    /// The run for an agent whose turn begins: what was left of an earlier turn is gone on with once.
    pub(super) fn for_turn(&self, agent_name: &str) -> Self {
        let past = self.past.clone().filter(|past| past.take(agent_name));
        self.for_agent(agent_name).with_past(past)
    }

    /// The same run with what it had come to, or from the beginning.
    pub(crate) fn with_past(&self, past: Option<Arc<Past>>) -> Self {
        let mut context = self.clone();
        context.past = past;
        context
    }

    pub(super) fn past(&self) -> Option<&Arc<Past>> {
        self.past.as_ref()
    }

    /// Whether the run can be taken up again, see [`RunnerBuilder::resumable`](crate::runner::RunnerBuilder::resumable).
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        self.shared().resumable
    }

    /// What this agent told last of where it stands, in an event's [`agent_state`](scratchbook_core::event::EventActions::agent_state), in a
    /// run that is taken up again.
    #[must_use]
    pub fn agent_state(&self) -> Option<Map<String, Value>> {
        let (state, _) = self.past.as_ref()?.state(self.agent_name(), self.branch())?;
        Some(state.clone())
    }

    /// An event that tells where this agent stands, where that is wanted.
    pub(super) fn stands(&self, state: Map<String, Value>) -> Option<Event> {
        let mut event = self.is_resumable().then(|| self.event())?;
        event.actions.agent_state = Some(state.into());
        Some(event)
    }

    /// An event that tells that this agent is done, where that is wanted.
    pub(super) fn ends(&self) -> Option<Event> {
        let mut event = self.is_resumable().then(|| self.event())?;
        event.actions.end_of_agent = Some(true);
        Some(event)
    }
}
