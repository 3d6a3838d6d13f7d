//! Confirmations, committed so that each is taken once, in whatever process.

use std::collections::HashSet;
use std::sync::Arc;

use super::Inner;
use super::answered::Answered;
use super::turns::Turn;
use crate::agent::InvocationContext;
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{AppendOptions, GetSessionConfig, no_session};

impl Inner {
    /// Appends what confirms calls. Of two processes in which one confirmation is given at once, one is told to look again
    /// (`Conflict`), by the store's commit.
    ///
    /// A store that cannot refuse an append for being late says so. There it is appended as it is, and then looked whether
    /// others have answered the same meanwhile: each of two looks after its own append, so that one of them sees the other.
    /// Where both do, neither goes on, and a run without a message carries out what was confirmed.
    pub(super) async fn confirm(
        &self,
        context: &InvocationContext,
        events: Vec<Event>,
        answered: &Answered,
        turn: &Arc<Turn>,
    ) -> Result<()> {
        let mut options = AppendOptions::by_session(context.session().seen().clone());
        let mut is_guarded = true;
        for event in events {
            let guarded = self.commit_with(context, event.clone(), turn, std::mem::take(&mut options)).await;
            match guarded {
                Err(error) if is_guarded && error.kind() == ErrorKind::Unsupported => {
                    is_guarded = false;
                    self.commit(context, event, turn).await?;
                }
                committed => drop(committed?),
            }
        }
        if is_guarded { Ok(()) } else { self.check_alone(context, answered).await }
    }

    /// Refuses confirmations that somebody else has answered since the session was read.
    async fn check_alone(&self, context: &InvocationContext, answered: &Answered) -> Result<()> {
        let key = context.session_key();
        let now = self.sessions.get_session(key, &GetSessionConfig::default().without_state()).await?;
        let now = now.ok_or_else(|| no_session(key))?;
        let session = context.session();
        let known: HashSet<_> = session.events().iter().map(|event| event.id.as_str()).collect();
        let confirmations = answered.confirmations();
        // Not by their order, which may be that of clocks. An answer before all that the run has read was to another request.
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
