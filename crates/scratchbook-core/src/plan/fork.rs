//! Common parts of forks: the address of the new session, and the check of the event at which the fork ends.

use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::session::{ForkConfig, SessionKey};

use super::commit::new_key;

/// Returns the address of the fork, with a generated id if none was given.
///
/// # Errors
///
/// `InvalidArgument` for an invalid id.
pub fn fork_key(key: &SessionKey, config: &ForkConfig, environment: &dyn Environment) -> Result<SessionKey> {
    new_key(key.app_name(), key.user_id(), config.session_id.as_deref(), environment)
}

/// Refuses the number of an event that does not exist yet or was pruned: `last` is the number of the last event, and
/// the fold starts after the event `base`.
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

/// Returns the error if the log of a user or an app does not reach back far enough.
#[must_use]
pub fn log_pruned(key: &SessionKey, seq: u64) -> Error {
    let message = format!("the log of shared state was pruned after event {seq} of {key}; ask for a later event");
    Error::new(ErrorKind::FailedPrecondition, message)
}
