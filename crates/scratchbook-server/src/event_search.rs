//! Searches for an event by a property other than its number.

use std::sync::Arc;

use scratchbook::environment::Deadline;
use scratchbook::{Event, GetSessionConfig, Result, SessionKey, SessionService};

use crate::answers::PAGE_BYTES;

/// How many events are read at a time.
const PAGE: usize = 200;

/// Returns the last event of a session for which `is_it` holds, or `None` if there is no such event or no such session.
/// The search goes backwards, so late events are found fast.
///
/// # Errors
///
/// The errors of the store.
pub(crate) async fn last_event(
    sessions: &dyn SessionService,
    key: &SessionKey,
    is_it: impl Fn(&Event) -> bool,
) -> Result<Option<Arc<Event>>> {
    let mut before = u64::MAX;
    loop {
        Deadline::current().check()?;
        let config = GetSessionConfig::default().with_events_before(before, PAGE);
        let config = config.with_page_bytes(PAGE_BYTES).without_state();
        let Some(session) = sessions.get_session(key, &config).await? else {
            return Ok(None);
        };
        if let Some(event) = session.events().iter().rev().find(|event| is_it(event)) {
            return Ok(Some(Arc::clone(event)));
        }
        match session.events().get(0).and_then(|first| first.seq) {
            Some(first) if first > 1 => before = first,
            _ => return Ok(None),
        }
    }
}
