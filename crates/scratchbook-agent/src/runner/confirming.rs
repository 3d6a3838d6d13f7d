//! Commits confirmations so that each one is accepted only once across all processes.

use std::collections::HashSet;
use std::sync::Arc;

use super::RunnerCore;
use super::answered_calls::AnsweredCalls;
use super::session_lock::RunPermit;
use crate::agent::InvocationContext;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{AppendOptions, Capability, GetSessionConfig, no_session};

impl RunnerCore {
    /// Appends the answers to confirmations. If two processes give the same confirmation at the same time, the store
    /// refuses one of the commits with `Conflict`.
    ///
    /// A store without optimistic locking accepts both commits. So the session is read again after the append, to find
    /// other answers to the same requests. Each of the two processes reads after its own append, so at least one of
    /// them sees the other's answer and stops. If both stop, a later run without a message runs the confirmed call.
    pub(super) async fn confirm(
        &self,
        context: &InvocationContext,
        events: Vec<Event>,
        answered: &AnsweredCalls,
        permit: &Arc<RunPermit>,
    ) -> Result<()> {
        let is_guarded = self.sessions.capabilities().has(Capability::Conflicts);
        let mut options = match is_guarded {
            true => AppendOptions::by_session(context.session().seen().clone()),
            false => AppendOptions::default(),
        };
        for event in events {
            self.commit_with(context, event, permit, std::mem::take(&mut options)).await?;
        }
        if is_guarded { Ok(()) } else { self.check_alone(context, answered).await }
    }

    /// Refuses confirmations that another process has answered since the session was read.
    async fn check_alone(&self, context: &InvocationContext, answered: &AnsweredCalls) -> Result<()> {
        let key = context.session_key();
        let now = self.sessions.get_session(key, &GetSessionConfig::default().without_state()).await?;
        let now = now.ok_or_else(|| no_session(key))?;
        let session = context.session();
        let known: HashSet<_> = session.events().iter().map(|event| event.id.as_str()).collect();
        let confirmations = answered.confirmations();
        // Events are compared by id and not by place, since clocks that differ may determine their order. An answer
        // before the first event that the run has read belongs to another request.
        let is_new = |event: &&Arc<Event>| event.author == "user" && !known.contains(event.id.as_str());
        let others = now.events().iter().filter(is_new);
        let mut answers = others.flat_map(|event| event.function_responses()).filter_map(|answer| answer.id.as_deref());
        match answers.find(|id| confirmations.contains(id)) {
            None => Ok(()),
            Some(id) => Err(Error::new(
                ErrorKind::Conflict,
                format!("the confirmation '{id}' was given elsewhere at the same time"),
            )),
        }
    }
}
