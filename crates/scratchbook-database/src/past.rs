//! Point-in-time state: folds what a database has stored of a session into the state at one of its events.

use std::sync::Arc;

use super::after::AfterCommit;
use super::{Backend, gate::GatePass};
use scratchbook_core::error::Result;
use scratchbook_core::plan::folded::{CHECKPOINT_EVENTS, Folded};
use scratchbook_core::plan::sql::rows;
use scratchbook_core::session::{SessionKey, StateBytes};
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
    /// The last checkpoint up to the event, or the state from which the fold begins, and the events after it that were
    /// read in order.
    #[doc(hidden)]
    pub base: Folded,
    /// The events that were read before the event in front of them: their numbers and texts.
    events: Vec<(u64, String)>,
    /// How many events were read.
    count: u64,
    /// The folds at which checkpoints may be stored.
    due: Vec<(u64, String)>,
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
    /// Begins a fold with a checkpoint or an initial state of the session that has this incarnation.
    #[doc(hidden)]
    #[must_use]
    pub fn begin(incarnation: String, base: Folded) -> Self {
        Self { incarnation, base, ..Self::default() }
    }

    /// Returns how many events were read.
    #[doc(hidden)]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes an event after the base. An event that comes in order is folded at once, and its text is not kept.
    #[doc(hidden)]
    pub fn take(&mut self, key: &SessionKey, number: i64, text: &str) -> Result<()> {
        let number = rows::number(number, || format!("the number of an event of {key}"))?;
        self.count += 1;
        if number == self.base.seq + 1 {
            return self.apply(key, number, text);
        }
        self.events.push((number, text.to_owned()));
        Ok(())
    }

    fn apply(&mut self, key: &SessionKey, number: u64, text: &str) -> Result<()> {
        self.base.apply(number, text, key)?;
        if let Some(text) = self.base.take_checkpoint()? {
            self.due.push((number, text));
            // Copies of a large state take much memory, and the latest one saves most.
            while self.due.len() > 1
                && self.due.iter().map(|(_, text)| text.len() as u64).sum::<u64>() > StateBytes::MAX
            {
                self.due.remove(0);
            }
        }
        Ok(())
    }

    /// Folds the session's keys up to the last event, which has the number `seq`.
    #[doc(hidden)]
    pub fn fold(&mut self, key: &SessionKey, seq: u64) -> Result<Folded> {
        let mut events = std::mem::take(&mut self.events);
        events.sort_unstable_by_key(|(number, _)| *number);
        for (number, text) in events {
            if number != self.base.seq + 1 {
                break;
            }
            self.apply(key, number, &text)?;
        }
        if self.base.seq == seq {
            return Ok(std::mem::take(&mut self.base));
        }
        Err(rows::damaged(format!("the event {} of {key}, which is not there, ", self.base.seq + 1)))
    }

    /// Returns the merged state after the event, and the folds that are due to be stored as checkpoints. There are no
    /// such folds if few events were folded.
    pub(super) fn into_state(mut self, key: &SessionKey, seq: u64) -> Result<(StateMap, Vec<Checkpoint>)> {
        let folded = self.fold(key, seq)?;
        let is_long = self.count > 2 * CHECKPOINT_EVENTS;
        let due = if is_long { std::mem::take(&mut self.due) } else { Vec::new() };
        let named = |(seq, text)| Checkpoint { incarnation: self.incarnation.clone(), seq, text };
        let due = due.into_iter().map(named).collect();
        Ok((StateMap::new(folded.into_scope()?, self.user, self.app), due))
    }
}

impl<D: Backend> AfterCommit<D> {
    /// Stores a checkpoint at an event that has just been stored, if one is due.
    pub(super) fn fold_to(self: &Arc<Self>, key: &SessionKey, seq: u64, pass: &GatePass) {
        if seq == 0 || !seq.is_multiple_of(CHECKPOINT_EVENTS) {
            return;
        }
        let after = Arc::clone(self);
        let key = key.clone();
        self.aside(pass, async move {
            let past = after.backend.past(&key, seq, PastScopes::Own).await.map_err(|failure| failure.error);
            let checkpoint = past.and_then(|mut past| {
                past.fold(&key, seq)?;
                let due = past.due.pop().filter(|(at, _)| *at == seq);
                Ok(due.map(|(seq, text)| Checkpoint { incarnation: past.incarnation, seq, text }))
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
        let after = Arc::clone(self);
        let key = key.clone();
        self.aside(pass, async move {
            for checkpoint in &checkpoints {
                after.keep(&key, checkpoint).await;
            }
        });
    }

    /// Runs background work when a permit is free. Only closing waits for the work.
    fn aside(self: &Arc<Self>, pass: &GatePass, work: impl Future<Output = ()> + Send + 'static) {
        let after = Arc::clone(self);
        let pass = pass.clone();
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
