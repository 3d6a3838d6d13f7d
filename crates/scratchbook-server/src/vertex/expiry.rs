//! When a session is to end.

use scratchbook::{Error, Expiry, Result};

use crate::served::Served;

/// Refuses a time that is past, and one that is none, before anything is changed.
pub(super) fn check(served: &Served, expiry: Option<Expiry>) -> Result<()> {
    let Some(expiry) = expiry else { return Ok(()) };
    let now = served.environment.now();
    expiry.micros(|| now)?;
    match expiry {
        Expiry::At(at) if at <= now => {
            Err(Error::invalid("expireTime is past; to be rid of the session now, delete it"))
        }
        _ => Ok(()),
    }
}
