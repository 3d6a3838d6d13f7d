//! What is committed to a session from now on, as a stream: the number of each event and its HTML.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Query;
use axum::http::HeaderMap;
use futures_util::Stream;
use percent_encoding::percent_decode_str;
use scratchbook::session::{FeedCommit, FeedCursor, FeedEntry, FeedStart, RemovalKind, Watch, Watched};
use scratchbook::{Error, ErrorKind, SessionKey, SessionService};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::super::address::{View, encoded};
use super::super::masks::Masks;
use super::super::{Answer, SessionScope};
use super::conversation::Answers;
use super::event;
use super::read::Reader;
use crate::operations::Gauge;
use crate::sse;

/// How long to wait before a store that cannot be reached is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// Browsers name the last frame that they have seen when they connect again.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) async fn follow(scope: SessionScope, Query(view): Query<View>, headers: HeaderMap) -> Answer {
    let reader = Reader::new(&scope);
    let seen = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
    let start = match seen.map(|id| percent_decode_str(id).decode_utf8()) {
        Some(cursor) => {
            let cursor = cursor.map_err(|_| Error::invalid("Last-Event-ID is not an id of this stream"))?;
            FeedStart::After(FeedCursor::new(cursor))
        }
        None => FeedStart::Now,
    };
    let watch = scope.app_state.watches.start(Watched::session(scope.key.clone()), start).await?;
    // Read after the watch has begun, so that no event is between the two.
    let (head, can_talk) = (reader.head().await?, reader.can_talk);
    let last = if seen.is_none() { head.known_seq() } else { None };
    Ok(sse::stream(frames(watch, last, Frames { key: scope.key, view, masks: Masks::of(&head), can_talk })))
}

/// How events are shown in frames.
struct Frames {
    key: SessionKey,
    view: View,
    masks: Masks,
    can_talk: bool,
}

/// `last` is the event before the first of the stream, for a page that was made before it.
fn frames(
    mut watch: Watch<Arc<dyn SessionService>>,
    last: Option<u64>,
    how: Frames,
) -> impl Stream<Item = Bytes> + Send + 'static {
    async_stream::stream! {
        let _open = Gauge::one_more("scratchbook_watchers");
        yield place("retry: 1000\n", watch.cursor());
        if let Some(last) = last {
            yield sse::frame("message", &json!({"last": last}));
        }
        loop {
            match timeout(sse::HEARTBEAT, watch.next()).await {
                Ok(Ok(entry)) => yield frame(&how, &entry),
                Ok(Err(error)) if error.is_retryable() => sleep(PAUSE).await,
                Ok(Err(error)) => {
                    // Without the mark the page asks again, and is then answered with the reason.
                    if error.kind() == ErrorKind::NotFound {
                        yield sse::frame("message", &json!({"gone": true}));
                    }
                    break;
                }
                Err(_) => yield place(":\n", watch.cursor()),
            }
        }
    }
}

/// A frame without data, which moves the client's place on and is no event.
fn place(before: &str, cursor: &FeedCursor) -> Bytes {
    format!("{before}id: {}\n\n", encoded(cursor.as_str())).into()
}

fn frame(Frames { key, view, masks, can_talk }: &Frames, entry: &FeedEntry) -> Bytes {
    let data = match &entry.commit {
        FeedCommit::Event { event, .. } => {
            let answers = Answers::default();
            let shown = event::Shown {
                key,
                view,
                masks,
                answers: &answers,
                before: None,
                chosen: None,
                takes_answers: *can_talk,
            };
            let html = shown.markup(event).into_string();
            json!({"seq": event.seq, "run": event.invocation_id, "html": html})
        }
        FeedCommit::Removed(removal) => json!({"gone": removal.kind != RemovalKind::Pruned}),
        _ => json!({}),
    };
    format!("id: {}\ndata: {}\n\n", encoded(entry.cursor.as_str()), sse::line(&data)).into()
}
