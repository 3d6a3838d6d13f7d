//! The fold of a session's events up to one of them, as SQL stores compute it: from a checkpoint or from the initial
//! state.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::Result;
use crate::json::{self, bytes_of};
use crate::plan::sql::rows;
use crate::session::{FoldRoom, InitialState, SessionKey, StateBytes};
use crate::state::{OwnKeys, ScopeMap, StateDelta, apply_own, own_keys};

/// The number of events after which a checkpoint of a session's fold may be stored, so that reading an earlier state
/// folds few events. Checkpoints are written apart from the commit of the events and are optional: without a checkpoint
/// a read takes longer.
pub const CHECKPOINT_EVENTS: u64 = 512;

/// A session's own keys as of an event, each with the number of the event that wrote it.
#[derive(Debug, Default, PartialEq)]
pub struct Folded {
    /// The number of the last folded event.
    pub seq: u64,
    pub keys: OwnKeys,
    /// The total length of the folded texts since the last checkpoint.
    bytes: usize,
    room: FoldRoom,
}

/// The part of an event that is folded.
#[derive(Deserialize)]
struct WrittenActions {
    #[serde(default)]
    actions: Actions,
}

#[derive(Default, Deserialize)]
struct Actions {
    #[serde(default, rename = "stateDelta")]
    state_delta: StateDelta,
}

impl Folded {
    /// Starts from an initial state.
    pub fn begin(initial: InitialState) -> Self {
        let InitialState { seq, state } = initial;
        Self { seq, keys: own_keys(seq, state), ..Self::default() }
    }

    /// Starts from a checkpoint.
    pub fn from_checkpoint(seq: u64, text: &str, key: &SessionKey) -> Result<Self> {
        let keys = rows::json(text, || format!("the checkpoint at event {seq} of {key}"))?;
        let mut folded = Self { seq, keys, ..Self::default() };
        folded.take(text.len())?;
        Ok(folded)
    }

    /// Folds in the next event, given as text.
    ///
    /// # Errors
    ///
    /// `PayloadTooLarge` if the state becomes half as large again as one that is read whole; `DataCorrupted` for text that is no event.
    pub fn apply(&mut self, seq: u64, text: &str, key: &SessionKey) -> Result<()> {
        let event: WrittenActions = rows::json(text, || format!("the event {seq} of {key}"))?;
        apply_own(&mut self.keys, seq, &event.actions.state_delta);
        self.seq = seq;
        self.bytes += text.len();
        self.take(text.len())
    }

    fn take(&mut self, bytes: usize) -> Result<()> {
        let keys = &self.keys;
        self.room.take(bytes as u64, || size(keys))
    }

    /// Returns the text of a checkpoint at this event; `None` if none is due, or if it would be larger than the events
    /// since the last one.
    pub fn take_checkpoint(&mut self) -> Result<Option<String>> {
        if self.seq == 0 || !self.seq.is_multiple_of(CHECKPOINT_EVENTS) {
            return Ok(None);
        }
        let text = json::to_text(&self.keys, "the state")?;
        // A checkpoint that is larger than a state may be would not be read.
        if text.len() > self.bytes || text.len() as u64 > StateBytes::MAX {
            return Ok(None);
        }
        self.bytes = 0;
        Ok(Some(text))
    }

    /// Returns the keys and values without their writers, as a new initial state.
    ///
    /// # Errors
    ///
    /// `PayloadTooLarge` if the state is too large to be read whole.
    pub fn into_state(mut self) -> Result<Map<String, Value>> {
        self.room.finish(|| size(&self.keys))?;
        Ok(self.keys.into_iter().map(|(name, (_, value))| (name, value)).collect())
    }

    /// # Errors
    ///
    /// `PayloadTooLarge` if the state is too large to be read whole.
    pub fn into_scope(mut self) -> Result<ScopeMap> {
        self.room.finish(|| size(&self.keys))?;
        Ok(self.keys.into_iter().map(|(name, (_, value))| (Arc::from(name), Arc::new(value))).collect())
    }
}

fn size(keys: &OwnKeys) -> u64 {
    keys.iter().map(|(name, (_, value))| name.len() as u64 + bytes_of(value)).sum()
}
