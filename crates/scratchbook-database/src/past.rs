//! Point-in-time state: folds what a database has stored of a session into the state at one of its events.

use std::sync::Arc;

use super::after::AfterCommit;
use super::{Backend, gate::GatePass};
use scratchbook_core::error::Result;
use scratchbook_core::plan::folded::{CHECKPOINT_EVENTS, Folded};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::SessionKey;
use scratchbook_core::state::{ScopeMap, StateMap};

/// The scopes of the keys that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PastScopes {
    /// Only the session's own keys.
    Own,
    /// The session's own keys, and the keys of the user and the app.
    All,
}

/// What a database has stored of a session up to one of its events.
#[derive(Debug, Default)]
pub struct Past {
    /// Distinguishes the session from a session that is created later under the same key.
    #[doc(hidden)]
    pub incarnation: String,
    /// The last checkpoint up to the event, or the state from which the fold begins.
    #[doc(hidden)]
    pub base: Folded,
    /// The events after `base`, in any order: their numbers and texts.
    #[doc(hidden)]
    pub events: Vec<(i64, String)>,
    /// The user's keys at that time.
    #[doc(hidden)]
    pub user: ScopeMap,
    /// The app's keys at that time.
    #[doc(hidden)]
    pub app: ScopeMap,
}

/// A stored fold, so that later reads fold fewer events.
#[derive(Debug)]
pub struct Checkpoint {
    /// Identifies the checkpoint's session among those that have had the same key.
    #[doc(hidden)]
    pub incarnation: String,
    /// The number of the last event in the fold.
    #[doc(hidden)]
    pub seq: u64,
    #[doc(hidden)]
    pub text: String,
}

impl Past {
    /// Folds the session's keys up to the last event, which has the number `seq`. Passes the fold after each event to a
    /// callback.
    #[doc(hidden)]
    pub fn fold(
        &mut self,
        key: &SessionKey,
        seq: u64,
        mut each: impl FnMut(&mut Folded) -> Result<()>,
    ) -> Result<Folded> {
        let (mut folded, mut events) = (std::mem::take(&mut self.base), std::mem::take(&mut self.events));
        events.sort_unstable_by_key(|(number, _)| *number);
        for (number, text) in events {
            let next = folded.seq + 1;
            if u64::try_from(number).ok() != Some(next) {
                return Err(rows::damaged(format!("the event {next} of {key}, which is not there, ")));
            }
            folded.apply(next, &text, key)?;
            each(&mut folded)?;
        }
        if folded.seq == seq {
            return Ok(folded);
        }
        Err(rows::damaged(format!("the event {} of {key}, which is not there, ", folded.seq + 1)))
    }

    /// Returns the merged state after the event, and the folds that are due to be stored as checkpoints. There are no
    /// such folds if few events were folded.
    pub(super) fn into_state(mut self, key: &SessionKey, seq: u64) -> Result<(StateMap, Vec<Checkpoint>)> {
        let is_long = self.events.len() as u64 > 2 * CHECKPOINT_EVENTS;
        let mut due = Vec::new();
        let incarnation = self.incarnation.clone();
        let folded = self.fold(key, seq, |folded| {
            let text = if is_long { folded.take_checkpoint()? } else { None };
            due.extend(text.map(|text| Checkpoint { incarnation: incarnation.clone(), seq: folded.seq, text }));
            Ok(())
        })?;
        Ok((StateMap::new(folded.into_scope(), self.user, self.app), due))
    }
}

impl<D: Backend> AfterCommit<D> {
    /// Stores a checkpoint at an event that has just been stored, if one is due.
    pub(super) fn fold_to(self: &Arc<Self>, key: &SessionKey, seq: u64, pass: &GatePass) {
        if seq == 0 || !seq.is_multiple_of(CHECKPOINT_EVENTS) {
            return;
        }
        let (after, key) = (Arc::clone(self), key.clone());
        self.aside(pass, async move {
            let past = after.backend.past(&key, seq, PastScopes::Own).await.map_err(|failure| failure.error);
            let checkpoint = past.and_then(|mut past| {
                let text = past.fold(&key, seq, |_| Ok(()))?.take_checkpoint()?;
                Ok(text.map(|text| Checkpoint { incarnation: past.incarnation, seq, text }))
            });
            match checkpoint {
                Ok(Some(checkpoint)) => after.keep(&key, &checkpoint).await,
                Ok(None) => {}
                // The session may have been deleted in the meantime, and no read depends on the checkpoint.
                Err(error) => tracing::debug!(%error, "no checkpoint of a session was made"),
            }
        });
    }

    /// Stores checkpoints that a read has computed.
    pub(super) fn keep_all(self: &Arc<Self>, key: &SessionKey, checkpoints: Vec<Checkpoint>, pass: &GatePass) {
        if checkpoints.is_empty() {
            return;
        }
        let (after, key) = (Arc::clone(self), key.clone());
        self.aside(pass, async move {
            for checkpoint in &checkpoints {
                after.keep(&key, checkpoint).await;
            }
        });
    }

    /// Runs background work when a permit is free. Only closing waits for the work.
    fn aside(self: &Arc<Self>, pass: &GatePass, work: impl Future<Output = ()> + Send + 'static) {
        let (after, pass) = (Arc::clone(self), pass.clone());
        tokio::spawn(async move {
            let _pass = pass;
            if let Ok(_turn) = after.checkpoints.acquire().await {
                work.await;
            }
        });
    }

    async fn keep(&self, key: &SessionKey, checkpoint: &Checkpoint) {
        if let Err(failure) = self.backend.keep_checkpoint(key, checkpoint).await {
            tracing::debug!(error = %failure.error, "no checkpoint of a session was kept");
        }
    }
}
