//! What forks have in common in all stores: the address of the new session, and which event they end at.

use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{ForkConfig, SessionKey};

use super::commit::new_key;

/// The address of the fork, with an id of the environment's where none was given.
///
/// # Errors
///
/// `InvalidArgument` for a bad id.
pub fn fork_key(key: &SessionKey, config: &ForkConfig, environment: &dyn Environment) -> Result<SessionKey> {
    new_key(key.app_name(), key.user_id(), config.session_id.as_deref(), environment)
}

/// Refuses an event that is not there yet, or not there any more: the last one has the number `last`, and the fold begins
/// after the one with the number `base`.
///
/// # Errors
///
/// `NotFound` or `FailedPrecondition`.
pub fn check_event_number(key: &SessionKey, seq: u64, base: u64, last: u64) -> Result<()> {
    if seq > last {
        return Err(Error::not_found(format!(
            "the session {key} has no event {seq}; its last one has the number {last}"
        )));
    }
    if seq < base {
        let message =
            format!("the events of {key} up to {base} were pruned; {seq} is before that, ask for {base} or later");
        return Err(Error::new(ErrorKind::FailedPrecondition, message));
    }
    Ok(())
}

/// The error where a user's or an app's log does not reach back far enough.
#[must_use]
pub fn log_pruned(key: &SessionKey, seq: u64) -> Error {
    let message = format!("the log of shared state was pruned after event {seq} of {key}; ask for a later event");
    Error::new(ErrorKind::FailedPrecondition, message)
}
