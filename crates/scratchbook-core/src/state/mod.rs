//! The scratchpad: keys and scopes, deltas, the overlay that agents write to, and the fold that defines state.
//!
//! Everything here is a pure function of its arguments: no clock, no randomness, no async, no I/O.

mod change;
mod delta;
mod delta_operations;
mod fold;
mod guard;
mod map;
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
pub(crate) use operation::Resolution;
pub use overlay::State;
pub use scope::Scope;

#[doc(hidden)]
pub use guard::Refused;
#[doc(hidden)]
pub use map::{ScopeMap, change_scope};
#[doc(hidden)]
pub use operation::resolve;
#[doc(hidden)]
pub use scope::{MAX_KEY_BYTES, check_key};
#[doc(hidden)]
pub use to_value::to_value;
