//! Appends events, and lists them page by page.

use axum::Json;
use axum::extract::RawQuery;
use axum::response::Response;
use scratchbook::vertex::{event_from_json, event_to_json, mark_brought};
use scratchbook::{AppendOptions, Error, Result};
use serde_json::{Value, json};

use super::GoogleError;
use super::event_list::{EventList, EventOrder};
use super::page_token::PageTokens;
use super::params::{ObjectBody, Params};
use super::resource_name::EngineSessionScope;
use super::sessions::check_there;
use super::times::TimeRange;
use crate::answers::ready;
use crate::heavy::off_worker;

/// Appends an event. A retry is safe if the event has an id. Pieces of a streamed reply are accepted but not stored.
pub(super) async fn append(
    target: EngineSessionScope,
    RawQuery(query): RawQuery,
    ObjectBody(body): ObjectBody,
) -> Result<Json<Value>, GoogleError> {
    Params::new(query.as_deref(), &[])?;
    let mut event = event_from_json(body)?;
    // A call that a client puts into an event is never carried out by a run.
    mark_brought(&mut event);
    target.caller.check_delta(&event.actions.state_delta)?;
    if event.is_partial() {
        check_there(&target.app_state, &target.key).await?;
    } else {
        target.app_state.store.sessions.append(&target.key, event, AppendOptions::default()).await?;
    }
    Ok(Json(json!({})))
}

/// Returns a page of events, in the order in which they were appended or in reverse.
pub(super) async fn list(target: EngineSessionScope, RawQuery(query): RawQuery) -> Result<Response, GoogleError> {
    let params = Params::new(query.as_deref(), &["pageSize", "pageToken", "filter", "orderBy"])?;
    let order = EventOrder::new(params.text("orderBy"))?;
    let times = TimeRange::new(params.text("filter"))?;
    let tokens = PageTokens::of(&json!([target.key.to_string(), format!("{order:?}"), format!("{times:?}")]));
    let (after, created) =
        params.text("pageToken").map_or(Ok((order.begin(), None)), |token| read_place(&tokens, token))?;
    let (app_state, key, size) = (&target.app_state, &target.key, params.page_size()?);
    let mut list = EventList { app_state, key, order, times, after, created, size };
    let (events, next) = list.read().await?;
    let created = list.created;
    let (names, session_id) = (target.names.clone(), target.key.session_id().to_owned());
    let wrong = |e| Error::internal("a page of events is no JSON").with_source(e);
    let write = move || {
        let mut body = Vec::new();
        // Events are converted one by one, since converting all at once would take many times their memory.
        for event in events {
            body.extend_from_slice(if body.is_empty() { b"{\"sessionEvents\":[" } else { b"," });
            let shown = event_to_json(&event, names.event(&session_id, &event.id))?;
            serde_json::to_writer(&mut body, &shown).map_err(wrong)?;
        }
        body.extend_from_slice(if body.is_empty() { b"{" } else { b"]" });
        Ok::<_, Error>(body)
    };
    let mut body = off_worker(write).await??;
    if let Some(seq) = next {
        body.extend_from_slice(if body.len() == 1 { b"\"nextPageToken\":" } else { b",\"nextPageToken\":" });
        let place = created.map_or_else(|| seq.to_string(), |created| format!("{seq} {created}"));
        serde_json::to_writer(&mut body, &tokens.write(&place)).map_err(wrong)?;
    }
    body.push(b'}');
    Ok(ready(body, None))
}

/// Returns the number of the event after which the page of a token begins, and when the session was created.
fn read_place(tokens: &PageTokens, token: &str) -> Result<(u64, Option<i64>)> {
    let wrong = |_| Error::invalid("the pageToken names no place in this list; start without one");
    let place = tokens.read(token)?;
    let (seq, created) = place.split_once(' ').map_or((place.as_str(), None), |(seq, created)| (seq, Some(created)));
    Ok((seq.parse().map_err(wrong)?, created.map(str::parse).transpose().map_err(wrong)?))
}
