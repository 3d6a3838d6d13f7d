//! Resume checkpoints: an agent records its progress in events and reads it back when a run is resumed.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::InvocationContext;
use super::resume::PastEvents;
use scratchbook_core::event::Event;

impl InvocationContext {
    /// Returns the context for an agent whose turn begins. Each agent continues an earlier turn only once.
    pub(super) fn for_turn(&self, agent_name: &str) -> Self {
        let past = self.past.clone().filter(|past| past.resume_once(agent_name));
        self.for_agent(agent_name).with_past(past)
    }

    /// Returns the same run. It continues from earlier events if there are any, and otherwise starts from the
    /// beginning.
    pub(crate) fn with_past(&self, past: Option<Arc<PastEvents>>) -> Self {
        let mut context = self.clone();
        context.past = past;
        context
    }

    pub(super) fn past(&self) -> Option<&Arc<PastEvents>> {
        self.past.as_ref()
    }

    /// Returns whether the run can be resumed, see
    /// [`RunnerBuilder::resumable`](crate::runner::RunnerBuilder::resumable).
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        self.shared().resumable
    }

    /// In a resumed run, returns the progress that this agent recorded last, from an event's
    /// [`agent_state`](scratchbook_core::event::EventActions::agent_state).
    #[must_use]
    pub fn agent_state(&self) -> Option<Map<String, Value>> {
        let (state, _) = self.past.as_ref()?.state(self.agent_name(), self.branch())?;
        Some(state.clone())
    }

    /// Returns an event that records this agent's progress, if the run is resumable.
    pub(super) fn checkpoint_event(&self, state: Map<String, Value>) -> Option<Event> {
        let mut event = self.is_resumable().then(|| self.event())?;
        event.actions.agent_state = Some(state.into());
        Some(event)
    }

    /// Returns an event that records this agent's end, if the run is resumable.
    pub(super) fn end_event(&self) -> Option<Event> {
        let mut event = self.is_resumable().then(|| self.event())?;
        event.actions.end_of_agent = Some(true);
        Some(event)
    }
}
