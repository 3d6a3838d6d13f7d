//! Lists the sessions of an engine that match a filter, page by page.

use axum::extract::RawQuery;
use axum::response::Response;
use scratchbook::environment::Deadline;
use scratchbook::json::bytes_up_to;
use scratchbook::session::{ListOrder, ListSessionsConfig, TitleFilter};
use scratchbook::{Error, Result, Session};
use serde_json::json;

use super::filter::{Comparison, Condition, conditions};
use super::page_token::PageTokens;
use super::params::Params;
use super::resource_name::Engine;
use super::sessions::shown;
use super::{GoogleError, created};
use crate::answers::ready;
use crate::app_state::AppState;
use crate::heavy::off_worker;

/// The maximum number of reads of the store for one page. The limit matters if few of the read sessions match. If no
/// session is found by then, the page is empty and another page follows.
const MOST_LOOKS: usize = 100;

pub(super) async fn list(engine: Engine, RawQuery(query): RawQuery) -> Result<Response, GoogleError> {
    let params = Params::new(query.as_deref(), &["pageSize", "pageToken", "filter", "orderBy"])?;
    let size = params.page_size()?;
    let order = SessionListOrder::new(params.text("orderBy"))?;
    let mut config = ListSessionsConfig::default();
    let mut is_empty = false;
    for condition in conditions(params.text("filter").unwrap_or_default())? {
        is_empty |= !add(&mut config, condition)?;
    }
    if let Some(user) = engine.caller.user() {
        // Sessions of other users are never in this list, whatever the filter says.
        is_empty |= config.user_id.as_ref().is_some_and(|wanted| wanted != user);
        config.user_id = Some(user.to_owned());
    }
    let list = json!([engine.app_name, format!("{order:?}"), format!("{config:?}"), is_empty]);
    let tokens = PageTokens::of(&list);
    config.page_token = params.text("pageToken").map(|token| tokens.read(token)).transpose()?;
    let (sessions, next) = if is_empty {
        // The page size is checked as in any other list.
        engine.app_state.store.sessions.list_sessions(&engine.app_name, &config.with_page_size(1)).await?;
        (Vec::new(), None)
    } else {
        written(&engine.app_state, &engine, config, order, size).await?
    };
    // Proto-JSON leaves empty fields out.
    let mut out = sessions;
    out.extend_from_slice(if out.is_empty() { b"{" } else { b"]" });
    if let Some(place) = next {
        out.extend_from_slice(if out.len() == 1 { b"\"nextPageToken\":" } else { b",\"nextPageToken\":" });
        // The token consists of letters, digits, `-` and `_`.
        out.extend_from_slice(format!("\"{}\"", tokens.write(&place)).as_bytes());
    }
    out.push(b'}');
    Ok(ready(out, None))
}

/// Writes a page of sessions without the end of its JSON, no larger than a page may be. Returns the text and the place
/// after which the next page begins.
///
/// Each session also shows the state of its user and its app, so only the written text shows how many sessions fit. If
/// not all of the read sessions fit, those that fit are read again, so that the place belongs to the last session of
/// the page.
async fn written(
    app_state: &AppState,
    engine: &Engine,
    config: ListSessionsConfig,
    order: SessionListOrder,
    mut size: usize,
) -> Result<(Vec<u8>, Option<String>)> {
    let page_bytes = usize::try_from(app_state.page_bytes()).unwrap_or(usize::MAX);
    loop {
        let mut config = config.clone().with_page_bytes(app_state.page_bytes());
        let (sessions, next) = match order {
            SessionListOrder::Updated(order) => {
                config.order = order;
                page(app_state, &engine.app_name, config, size).await?
            }
            SessionListOrder::Created(order) => created::page(app_state, &engine.app_name, config, order, size).await?,
        };
        let (names, caller, count) = (engine.names.clone(), engine.caller.clone(), sessions.len());
        let write = move || {
            let (mut out, mut fit) = (Vec::new(), 0);
            for session in sessions {
                let before = out.len();
                out.extend_from_slice(if fit == 0 { b"{\"sessions\":[" } else { b"," });
                serde_json::to_writer(&mut out, &shown(&session, &names, &caller).to_json())?;
                if fit > 0 && out.len() > page_bytes {
                    out.truncate(before);
                    break;
                }
                fit += 1;
            }
            Ok::<_, serde_json::Error>((out, fit))
        };
        let wrong = |e| Error::internal("a page of sessions is no JSON").with_source(e);
        let (out, fit) = off_worker(write).await?.map_err(wrong)?;
        if fit == count {
            return Ok((out, next));
        }
        size = fit;
    }
}

/// Reads a page, and returns it with the place after which the next page begins. The page is empty only at the end
/// or after [`MOST_LOOKS`] reads, since Google's clients for Python fail on an empty page.
async fn page(
    app_state: &AppState,
    app_name: &str,
    mut config: ListSessionsConfig,
    size: usize,
) -> Result<(Vec<Session>, Option<String>)> {
    let is_scanned = config.title.is_some() || !config.labels.is_empty();
    let (mut found, mut room) = (Vec::new(), Some(app_state.page_bytes()));
    for _ in 0..MOST_LOOKS {
        Deadline::current().check()?;
        // After a full page, one more read shows whether another session follows.
        let wanted = (size - found.len()).max(1);
        let page = app_state.store.sessions.list_sessions(app_name, &config.clone().with_page_size(wanted)).await?;
        if found.len() == size && !page.sessions.is_empty() {
            break;
        }
        config.page_token = page.next_page_token;
        if is_scanned {
            // Each read returns up to as many bytes as a page may have. Sessions beyond the page are not written, and
            // are read again for the next page.
            room = page.sessions.iter().fold(room, |room, session| Some(room? - bytes_up_to(session, room?)?));
        }
        found.extend(page.sessions);
        // A page with fewer sessions than requested has reached its limit of bytes.
        if config.page_token.is_none() || room.is_none() || (!found.is_empty() && !is_scanned) {
            break;
        }
    }
    Ok((found, config.page_token))
}

/// The order of sessions.
#[derive(Clone, Copy, Debug)]
enum SessionListOrder {
    /// Sessions are ordered by their last update, as stores list them.
    Updated(ListOrder),
    /// Sessions are ordered by their creation.
    Created(ListOrder),
}

impl SessionListOrder {
    fn new(text: Option<&str>) -> Result<Self> {
        let mut words = text.unwrap_or_default().split_whitespace();
        let (field, way, more) = (words.next(), words.next(), words.next());
        let way = match way {
            None | Some("asc") => Some(ListOrder::OldestFirst),
            Some("desc") => Some(ListOrder::NewestFirst),
            Some(_) => None,
        };
        match (field, way.filter(|_| more.is_none())) {
            (None | Some("update_time" | "updateTime"), Some(way)) => Ok(Self::Updated(way)),
            (Some("create_time" | "createTime"), Some(way)) => Ok(Self::Created(way)),
            _ => {
                let text = text.unwrap_or_default();
                let right =
                    "sessions are in the order of update_time or create_time, and with desc the other way round";
                Err(Error::invalid(format!("orderBy is {text:?}; {right}")))
            }
        }
    }
}

/// Adds a condition. Returns false if the condition excludes everything that the other conditions allow.
fn add(config: &mut ListSessionsConfig, condition: Condition) -> Result<bool> {
    let Condition { field, comparison, value } = condition;
    let is_compared = comparison != Comparison::Is;
    let before = match field.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["user_id" | "userId"] => config.user_id.replace(value.clone()),
        ["display_name" | "displayName"] => match config.title.replace(TitleFilter::Is(value.clone())) {
            Some(TitleFilter::Is(before)) => Some(before),
            _ => None,
        },
        ["labels", name] => config.labels.insert(name.to_owned(), value.clone()),
        _ => {
            let field = field.join(".");
            let message = format!("sessions are found by user_id, display_name and labels.NAME, not by '{field}'");
            return Err(Error::invalid(message));
        }
    };
    if is_compared {
        return Err(Error::invalid(format!("'{}' of a session is compared by = alone", field.join("."))));
    }
    Ok(before.is_none_or(|before| before == value))
}

#[cfg(test)]
mod tests {
    use scratchbook::{CreateSessionConfig, connect};
    use serde_json::json;

    use super::*;
    use crate::Server;

    #[tokio::test]
    async fn a_search_keeps_no_more_than_a_page_and_what_one_look_brings() {
        let store = connect("memory:").await.unwrap();
        for n in 0..40 {
            let config = CreateSessionConfig::default().with_session_id(format!("s{n}")).with_label("rare", "yes");
            let state = json!({"text": "x".repeat(1 << 20)});
            store.sessions.create_session("app", "u", config.with_state(state)).await.unwrap();
        }
        let app_state = Server::builder(store).build().unwrap().app_state();
        let mut config = ListSessionsConfig::default().with_page_bytes(app_state.page_bytes());
        config.labels.insert("rare".into(), "yes".into());
        let (found, next) = page(&app_state, "app", config, 100).await.unwrap();
        assert!((3..=8).contains(&found.len()) && next.is_some(), "{}", found.len());
    }
}
