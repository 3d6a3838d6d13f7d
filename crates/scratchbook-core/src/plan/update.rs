//! Updates of a session's title, labels and expiry, as pure descriptions that every store carries out.

use sha2::{Digest, Sha256};

use super::commit::{Prepared, prepare_event};
use super::limits::Limits;
use crate::environment::Environment;
use crate::error::Result;
use crate::event::Event;
use crate::json;
use crate::session::{AppendOptions, Expiry, OtherLabels, SessionMetadata, SessionUpdate};

/// An update of a session, prepared for storage.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedUpdate {
    /// The update as it was sent.
    pub update: SessionUpdate,
    /// The new expiry time, in microseconds since 1970, if the update sets one.
    expires: Option<Option<i64>>,
}

/// Prepares an update of a session.
///
/// # Errors
///
/// `InvalidArgument` for a title or labels that no session can have, and for an invalid time.
pub fn prepare_update(update: SessionUpdate, environment: &dyn Environment) -> Result<PreparedUpdate> {
    update.check()?;
    let micros = |expiry: Expiry| expiry.micros(|| environment.now());
    let expires = update.expiry.map(|expiry| expiry.map(micros).transpose()).transpose()?;
    Ok(PreparedUpdate { update, expires })
}

/// Prepares an append: the event, as [`prepare_event`] does, and the update that is committed with it. Not for partial
/// events.
///
/// # Errors
///
/// The errors of [`prepare_event`] and [`prepare_update`].
pub fn prepare_append(
    event: Event,
    options: &AppendOptions,
    environment: &dyn Environment,
    limits: &Limits,
) -> Result<Prepared> {
    let mut prepared = prepare_event(event, environment, limits)?;
    if let Some(update) = options.update.as_ref().filter(|update| !update.is_empty()) {
        prepared.update = Some(Box::new(prepare_update(update.clone(), environment)?));
        prepared.hash = hash(&prepared.hash, update)?;
    }
    Ok(prepared)
}

impl PreparedUpdate {
    /// Applies the update to the stored title and labels, and to the expiry time in microseconds since 1970. Returns
    /// the new values.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for more labels than a session can have; nothing may be written then.
    pub fn apply(&self, metadata: &SessionMetadata, expires: Option<i64>) -> Result<(SessionMetadata, Option<i64>)> {
        Ok((metadata.updated(&self.update)?, self.expires.unwrap_or(expires)))
    }
}

/// Returns the hash of an event as it was sent, together with an update.
fn hash(event: &[u8; 32], update: &SessionUpdate) -> Result<[u8; 32]> {
    let expiry = update.expiry.map(|expiry| match expiry {
        None => (None, None),
        Some(Expiry::At(seconds)) => (Some(seconds), None),
        Some(Expiry::After(span)) => (None, Some((span.as_secs(), span.subsec_nanos()))),
    });
    let removes = update.other_labels == OtherLabels::Remove;
    let text = json::to_text(&(&update.title, &update.labels, removes, expiry), "an update")?;
    Ok(Sha256::new_with_prefix(event).chain_update(text).finalize().into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::environment::SystemEnvironment;
    use crate::error::ErrorKind;

    fn prepared(update: SessionUpdate) -> Prepared {
        let event = Event::new("agent").with_id("e1").with_timestamp(1.5);
        let options = AppendOptions::default().with_update(update);
        prepare_append(event, &options, &SystemEnvironment, &Limits::default()).unwrap()
    }

    /// If the hash changed, retries of events stored by an older version would fail.
    #[test]
    fn the_hash_of_an_update_stays_what_it_is() {
        let update = SessionUpdate::default().with_title("t").with_label("a", "1").without_label("b");
        let update = update.without_other_labels().with_expiry(Expiry::After(Duration::from_millis(1500)));
        let hash: String = prepared(update).hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, "4a283325c3474e5a51d9cdf48c8714c44d63ef5a80fc87e7c11499dab02026e0");
    }

    #[test]
    fn what_an_update_says_is_part_of_what_identifies_a_retry() {
        let update = SessionUpdate::default;
        let after = |seconds| update().with_expiry(Expiry::After(Duration::from_secs(seconds)));
        let updates = [
            update(),
            update().with_title("t"),
            update().without_title(),
            update().with_label("t", ""),
            update().without_label("t"),
            update().without_other_labels(),
            update().with_expiry(None),
            update().with_expiry(Expiry::At(1.0)),
            after(1),
            after(2),
        ];
        for (n, update) in updates.iter().enumerate() {
            let hash = prepared(update.clone()).hash;
            assert_eq!(hash, prepared(update.clone()).hash);
            assert!(updates[..n].iter().all(|other| prepared(other.clone()).hash != hash), "{update:?}");
        }
        let plain = prepare_event(prepared(update()).event, &SystemEnvironment, &Limits::default()).unwrap();
        assert_eq!(plain.hash, prepared(update()).hash, "an update that changes nothing is none");
    }

    #[test]
    fn an_update_keeps_the_expiry_that_it_does_not_name() {
        let (update, stored) = (SessionUpdate::default, SessionMetadata::default());
        let apply = |update| prepare_update(update, &SystemEnvironment).unwrap().apply(&stored, Some(7)).unwrap().1;
        assert_eq!(apply(update().with_title("t")), Some(7));
        assert_eq!(apply(update().with_expiry(Expiry::At(2.0))), Some(2_000_000));
        assert_eq!(apply(update().with_expiry(None)), None);
        let refused = prepare_update(update().with_expiry(Expiry::At(f64::NAN)), &SystemEnvironment);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
