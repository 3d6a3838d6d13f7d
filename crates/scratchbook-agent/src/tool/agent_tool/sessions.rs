//! The session of an agent that is a tool: in memory, with each change passed on to the calling tool.

use async_trait::async_trait;

use crate::agent::ToolContext;
use scratchbook_core::error::Result;
use scratchbook_core::event::Event;
use scratchbook_core::memory::InMemorySessionService;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::session::{AppendOptions, Committed, SessionKey, SessionService, forward_sessions};
use scratchbook_core::state::Scope;

/// A store in memory for one call of a tool.
#[derive(Debug)]
pub(super) struct ForwardedSessions {
    sessions: InMemorySessionService,
    context: ToolContext,
}

impl ForwardedSessions {
    pub(super) fn new(context: ToolContext) -> Self {
        // The limits of the calling session's store apply when the tool's changes are committed there.
        let sessions = InMemorySessionService::with_environment(context.invocation().shared_environment());
        Self { sessions: sessions.with_limits(Limits::unlimited()), context }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl SessionService for ForwardedSessions {
    forward_sessions!(self.sessions =>
        capabilities, create_session, get_session, get_initial_state, get_state_at, blame, fork_session, list_sessions,
        locate_session, delete_session, get_state, state_bytes, list_state, put_state, list_state_changes, list_feed, commits,
        update_session, prune, list_event_hashes, list_owners, delete_user, check_writable, close);

    async fn append(&self, key: &SessionKey, event: Event, options: AppendOptions) -> Result<Committed> {
        // Operations are passed on as such: their results depend on the value at the commit of the calling session.
        let mut delta = event.actions.state_delta.clone();
        let committed = self.sessions.append(key, event, options).await?;
        delta.retain(|key| Scope::split(key).0 != Scope::Temp);
        if !delta.is_empty() {
            self.context.state().update(&delta)?;
        }
        Ok(committed)
    }
}
