//! The expiry of a session.

use scratchbook::session::Expiry;
use scratchbook::{Error, Result};

use crate::app_state::AppState;

/// Refuses an expiry time that is past or invalid, before anything is changed.
pub(super) fn check(app_state: &AppState, expiry: Option<Expiry>) -> Result<()> {
    let Some(expiry) = expiry else { return Ok(()) };
    let now = app_state.environment.now();
    expiry.micros(|| now)?;
    match expiry {
        Expiry::At(at) if at <= now => {
            Err(Error::invalid("expireTime is past; to be rid of the session now, delete it"))
        }
        _ => Ok(()),
    }
}
