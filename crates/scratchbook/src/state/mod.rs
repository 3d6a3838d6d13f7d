//! The scratchpad: keys and scopes, deltas, the overlay agents write to, and the fold that is the truth.
//!
//! Everything here is a function of its arguments: no clock, no randomness, no async, no I/O.

mod change;
mod delta;
mod fold;
mod map;
mod operate;
mod operation;
mod overlay;
mod scope;
mod to_value;

pub use change::Change;
pub use delta::{REMOVED, ScopedDelta, StateDelta, extract_state_delta};
pub(crate) use fold::{OwnKeys, apply_own, own_keys};
pub use fold::{apply, fold};
pub use map::StateMap;
pub use operation::Operation;
pub use overlay::State;
pub use scope::Scope;

pub(crate) use map::{ScopeMap, change_scope};
pub(crate) use operation::{Refused, resolve};
pub(crate) use scope::{MAX_KEY_BYTES, check_key};
pub(crate) use to_value::to_value;
