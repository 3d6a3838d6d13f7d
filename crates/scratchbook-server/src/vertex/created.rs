//! Sessions in the order in which they were made. No store has them so: they are read as far as they may be, and sorted.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use scratchbook::{Error, ErrorKind, ListOrder, ListSessionsConfig, Result, Session};
use serde_json::json;

use crate::served::Served;

/// How many sessions are sorted. Where more of them match, this order is refused.
const MOST: usize = 1000;
/// How often a store is asked, 1,000 sessions each, where few are wanted.
const MOST_LOOKS: usize = 10;

/// A place in the list: when a session was made, in microseconds, then user and id.
type Place = (i64, String, String);

/// A page of the sessions that a configuration asks for, in this order.
pub(super) async fn page(
    served: &Served,
    app_name: &str,
    mut config: ListSessionsConfig,
    order: ListOrder,
    size: usize,
) -> Result<(Vec<Session>, Option<String>)> {
    let after = config.page_token.take().map(|token| read_token(&token)).transpose()?;
    let mut found: Vec<_> = all(served, app_name, config).await?.into_iter().map(|s| (place(&s), s)).collect();
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    if order == ListOrder::NewestFirst {
        found.reverse();
    }
    let is_after = |place: &Place| {
        after.as_ref().is_none_or(|after| if order == ListOrder::NewestFirst { place < after } else { place > after })
    };
    found.retain(|(place, _)| is_after(place));
    let has_more = found.len() > size;
    found.truncate(size);
    let next = found.last().filter(|_| has_more).map(|(place, _)| URL_SAFE_NO_PAD.encode(json!(place).to_string()));
    Ok((found.into_iter().map(|(_, session)| session).collect(), next))
}

async fn all(served: &Served, app_name: &str, config: ListSessionsConfig) -> Result<Vec<Session>> {
    let (mut found, mut config) = (Vec::new(), config.with_page_size(MOST));
    for _ in 0..MOST_LOOKS {
        let page = served.store.sessions.list_sessions(app_name, &config).await?;
        found.extend(page.sessions);
        config.page_token = page.next_page_token;
        if config.page_token.is_none() && found.len() <= MOST {
            return Ok(found);
        }
        if found.len() > MOST {
            break;
        }
    }
    let message = format!(
        "more than {MOST} sessions would have to be sorted by create_time; filter them by user_id, or order by update_time"
    );
    Err(Error::new(ErrorKind::FailedPrecondition, message))
}

fn place(session: &Session) -> Place {
    let micros = (session.create_time().unwrap_or_default() * 1e6).round() as i64;
    (micros, session.user_id().to_owned(), session.id().to_owned())
}

fn read_token(token: &str) -> Result<Place> {
    let place = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    place.ok_or_else(|| Error::invalid("the pageToken is none that a list in this order has given; start without one"))
}
