//! Sessions in the order of their creation. No store lists sessions in this order, so they are read, up to a limit, and
//! sorted.

use std::collections::BTreeMap;

use scratchbook::environment::Deadline;
use scratchbook::json::bytes_of;
use scratchbook::plan::Room;
use scratchbook::session::{ListOrder, ListSessionsConfig};
use scratchbook::{Error, ErrorKind, GetSessionConfig, Result, Session, SessionKey};
use serde_json::json;

use super::times::micros;
use crate::app_state::AppState;

/// How many sessions are sorted. If more sessions match, this order is refused.
const MOST: usize = 10_000;
/// The number of sessions in one read of the store.
const LOOK: usize = 1000;
/// The maximum number of reads. It is limited because few of the sessions may match.
const MOST_LOOKS: usize = 100;

/// The sort key of a session: its creation in microseconds, then user and id.
type SortKey = (i64, String, String);

/// Returns a page of at most `size` sessions that match a configuration, in this order. Only the sort keys of one page
/// are held in memory.
pub(super) async fn page(
    app_state: &AppState,
    app_name: &str,
    mut config: ListSessionsConfig,
    order: ListOrder,
    size: usize,
) -> Result<(Vec<Session>, Option<String>)> {
    let is_newest = order == ListOrder::NewestFirst;
    let after = config.page_token.take().map(|place| parse_sort_key(&place)).transpose()?;
    let is_after =
        |place: &SortKey| after.as_ref().is_none_or(|after| if is_newest { place < after } else { place > after });
    let (mut found, mut count, mut config) = (BTreeMap::new(), 0, config.with_page_size(LOOK));
    for _ in 0..MOST_LOOKS {
        Deadline::current().check()?;
        let page = app_state.store.sessions.list_sessions(app_name, &config).await?;
        count += page.sessions.len();
        for session in page.sessions {
            let place = place(&session);
            if is_after(&place) {
                found.insert(place, session.key().clone());
            }
            // After a full page, one more read shows whether another session follows.
            if found.len() > size + 1 {
                if is_newest {
                    found.pop_first()
                } else {
                    found.pop_last()
                };
            }
        }
        config.page_token = page.next_page_token;
        if count > MOST {
            break;
        }
        if config.page_token.is_none() {
            let (found, next) = cut(found, is_newest, size);
            return read(app_state, found, next, config.page_bytes).await;
        }
    }
    let message = format!(
        "too many sessions to be sorted by create_time, at most {MOST} are; filter them by user_id, or order by update_time"
    );
    Err(Error::new(ErrorKind::FailedPrecondition, message))
}

/// Reads the sessions with these keys, as many as fit into `page_bytes`. If there are more, returns the sort key of the
/// last one too.
async fn read(
    app_state: &AppState,
    found: Vec<(SortKey, SessionKey)>,
    next: Option<String>,
    page_bytes: u64,
) -> Result<(Vec<Session>, Option<String>)> {
    let (mut sessions, mut room) = (Vec::new(), Room::new(page_bytes));
    let config = GetSessionConfig::state_only().with_page_bytes(page_bytes);
    let mut last = None;
    for (place, key) in found {
        // A session that was deleted in the meantime is left out.
        if let Some(session) = app_state.store.sessions.get_session(&key, &config).await? {
            if !room.takes(bytes_of(session.state())) {
                return Ok((sessions, last));
            }
            sessions.push(session);
        }
        last = Some(json!(place).to_string());
    }
    Ok((sessions, next))
}

/// Returns the first `size` of the found sessions. If there are more, returns the sort key of the last one too.
fn cut(
    found: BTreeMap<SortKey, SessionKey>,
    is_newest: bool,
    size: usize,
) -> (Vec<(SortKey, SessionKey)>, Option<String>) {
    let has_more = found.len() > size;
    let mut found: Vec<_> = found.into_iter().collect();
    if is_newest {
        found.reverse();
    }
    found.truncate(size);
    let next = found.last().filter(|_| has_more).map(|(place, _)| json!(place).to_string());
    (found, next)
}

fn place(session: &Session) -> SortKey {
    (micros(session.create_time().unwrap_or_default()), session.user_id().to_owned(), session.id().to_owned())
}

fn parse_sort_key(text: &str) -> Result<SortKey> {
    serde_json::from_str(text)
        .map_err(|_| Error::invalid("the pageToken names no place in this list; start without one"))
}
