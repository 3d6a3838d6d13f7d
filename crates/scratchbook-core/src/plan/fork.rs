//! Common parts of forks: the address of the new session, and the check of the event at which the fork ends.

use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{ForkConfig, SessionKey};

use super::commit::new_key;

pub use crate::session::check_event_number;

/// Returns the address of the fork, with a generated id if none was given.
///
/// # Errors
///
/// `InvalidArgument` for an invalid id.
pub fn fork_key(key: &SessionKey, config: &ForkConfig, environment: &dyn Environment) -> Result<SessionKey> {
    new_key(key.app_name(), key.user_id(), config.session_id.as_deref(), environment)
}

/// Returns the error if the log of a user or an app does not reach back far enough.
#[must_use]
pub fn log_pruned(key: &SessionKey, seq: u64) -> Error {
    let message = format!("the log of shared state was pruned after event {seq} of {key}; ask for a later event");
    Error::new(ErrorKind::FailedPrecondition, message)
}
