//! Point-in-time state and blame, and the checkpoints that make these reads fast.

mod blame;
mod checkpoint;
mod fold;
mod last_checkpoint;
mod state_at;

pub(crate) use self::blame::{blame, writer, writer_of_shared};
pub(crate) use self::checkpoint::{keep_checkpoints, make_checkpoints};
pub(crate) use self::fold::{StoredSession, find};
pub(crate) use self::state_at::{initial_state, position_at, state_at};
