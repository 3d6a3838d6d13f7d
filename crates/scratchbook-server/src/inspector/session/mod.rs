//! One session: its conversation, beside its state at an event.
//!
//! - `read.rs`: reads the data for a view from the store. `frame.rs`: the page around its parts, and the slider over
//!   its events.
//! - `conversation.rs`, `event.rs`: the events as people read them. `state.rs`: the state, and what changed it.
//! - `talk.rs`: messages to the agent. `change.rs`: changes of a key. `describe.rs`: title and
//!   labels. `branch.rs`: forks, rewinds, pruning and deletions. `export.rs`: the session as a file.
//! - `timeline.rs`: a run with its times. `history.rs`: the writes to a key. `raw.rs`: a whole value or event.
//!   `live.rs`: streams later commits.

mod branch;
mod change;
mod conversation;
mod describe;
mod event;
mod export;
mod frame;
mod history;
mod live;
mod raw;
mod read;
mod state;
mod talk;
mod timeline;

use axum::Router;
use axum::routing::{get, post};

use super::address::PageView;
use super::page::{self, InspectorPage, PageQuery};
use super::{PageAnswer, SessionScope};
use crate::app_state::AppState;
use read::SessionReader;

/// Returns the routes of the page and its parts.
pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/", get(session))
        .route("/events", get(events))
        .route("/state", get(state))
        .route("/history", get(history))
        .route("/live", get(live::follow))
        .route("/value", get(raw::value))
        .route("/event", get(raw::event))
        // As for every route named `/runs`, the agent determines how long the head of the answer takes.
        .route("/runs", get(timeline::page).post(talk::start))
        .route("/stop", post(talk::stop))
        .route("/change", post(change::change))
        .route("/fork", post(branch::fork))
        .route("/rewind", get(branch::ask_to_rewind).post(branch::rewind))
        .route("/details", get(describe::ask).post(describe::update))
        .route("/export", get(export::download))
        .route("/prune", get(branch::ask_to_prune).post(branch::prune))
        .route("/delete", get(branch::ask_to_delete).post(branch::delete))
}

async fn session(scope: SessionScope, PageQuery(view): PageQuery<PageView>) -> PageAnswer {
    let view = view.cleaned();
    let reader = SessionReader::new(&scope);
    let (head, events) = reader.opening(&view).await?;
    let moment = reader.moment(&head, &view).await?;
    let history = match &view.key {
        Some(key) => Some(history::read(&reader, &head, key, &view).await?),
        None => None,
    };
    let body = frame::body(&scope, &reader, &head, &view, &events, &moment, history.as_ref());
    let title = head.title().unwrap_or(head.id()).to_owned();
    let above = frame::above(&head);
    let scripts = &["time.js", "parts.js", "travel.js", "live.js", "talk.js"];
    Ok(InspectorPage { title: &title, above, caller: Some(&scope.caller), scripts, body }.answer())
}

async fn events(scope: SessionScope, PageQuery(view): PageQuery<PageView>) -> PageAnswer {
    let reader = SessionReader::new(&scope);
    let (head, events) = reader.opening(&view).await?;
    Ok(page::part(&conversation::markup(&reader, &head, &view, &events)))
}

async fn state(scope: SessionScope, PageQuery(view): PageQuery<PageView>) -> PageAnswer {
    let view = view.cleaned();
    let reader = SessionReader::new(&scope);
    let head = reader.head().await?;
    let moment = reader.moment(&head, &view).await?;
    Ok(page::part(&state::markup(&head, &view, &moment)))
}

async fn history(scope: SessionScope, PageQuery(view): PageQuery<PageView>) -> PageAnswer {
    let view = view.cleaned();
    let reader = SessionReader::new(&scope);
    let head = reader.head().await?;
    let key = view.key.clone().unwrap_or_default();
    let history = history::read(&reader, &head, &key, &view).await?;
    Ok(page::part(&history::markup(&head, &view, &history)))
}
