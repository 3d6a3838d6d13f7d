//! Streams the numbers of later commits to a session. A frame without a number says that the state has changed, since
//! other sessions also write to the user's and the app's keys. The page fetches what has changed.
//!
//! All pages of a session share one reader of the session's feed, and all pages of an app share one reader of the app's
//! feed.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::HeaderMap;
use futures_util::Stream;
use percent_encoding::percent_decode_str;
use scratchbook::session::{FeedCommit, FeedCursor, FeedEntry, FeedStart, RemovalKind, Watch, Watched};
use scratchbook::{Error, ErrorKind, Result, SessionKey, SessionService};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::super::address::encoded;
use super::super::{PageAnswer, SessionScope};
use super::read::SessionReader;
use crate::operations::Gauge;
use crate::sse;

/// How long to wait before the next call of a store that could not be reached.
const PAUSE: Duration = Duration::from_secs(1);

/// For how long changes of shared keys are gathered into one frame.
const GATHER: Duration = Duration::from_millis(250);

/// The header in which a browser that reconnects names the last frame it has seen.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) async fn follow(scope: SessionScope, headers: HeaderMap) -> PageAnswer {
    let reader = SessionReader::new(&scope);
    let seen = headers.get(LAST_EVENT_ID).and_then(|id| id.to_str().ok()).filter(|id| !id.is_empty());
    let start = match seen.map(|id| percent_decode_str(id).decode_utf8()) {
        Some(cursor) => {
            let cursor = cursor.map_err(|_| Error::invalid("Last-Event-ID is not an id of this stream"))?;
            FeedStart::After(FeedCursor::new(cursor))
        }
        None => FeedStart::Now,
    };
    let watch = scope.app_state.watches.start(Watched::session(scope.key.clone()), start).await?;
    // The head is read after the watch has begun, so that no event between the two is missed.
    let head = reader.head().await?;
    let last = if seen.is_none() { head.known_seq() } else { None };
    let mut shared = SharedKeyChanges::of(&scope).await?;
    // The session's feed does not say what other sessions wrote while the connection was lost.
    shared.is_due = seen.is_some();
    Ok(sse::stream(frames(watch, last, shared)))
}

/// Changes of the user's and the app's keys that are made by other sessions, or outside of any session.
struct SharedKeyChanges {
    /// `None` if the store has no such feed, or once reading it has failed for good.
    watch: Option<Watch<Arc<dyn SessionService>>>,
    key: SessionKey,
    /// Whether a change is to be reported at once.
    is_due: bool,
}

impl SharedKeyChanges {
    async fn of(scope: &SessionScope) -> Result<Self> {
        let what = Watched::app(scope.key.app_name())?;
        let watch = match scope.app_state.watches.start(what, FeedStart::Now).await {
            Ok(watch) => Some(watch),
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            Err(error) => return Err(error),
        };
        Ok(Self { watch, key: scope.key.clone(), is_due: false })
    }

    /// Waits until the state has changed. Changes that follow quickly count once, so a busy app costs a page little.
    async fn changed(&mut self) {
        while !self.is_due {
            match self.next().await {
                Some(entry) => self.is_due = concerns(&self.key, &entry),
                None => return pending().await,
            }
        }
        let end = Instant::now() + GATHER;
        while Instant::now() < end && matches!(timeout_at(end, self.next()).await, Ok(Some(_))) {}
        self.is_due = false;
    }

    /// Waits for the next commit to the app. Returns `None` if there will be no more.
    async fn next(&mut self) -> Option<FeedEntry> {
        loop {
            match self.watch.as_mut()?.next().await {
                Ok(entry) => return Some(entry),
                Err(error) if error.is_retryable() => sleep(PAUSE).await,
                Err(_) => self.watch = None,
            }
        }
    }
}

/// Returns whether a commit changes shared keys that a session sees, and is not one of the session's own events.
fn concerns(key: &SessionKey, entry: &FeedEntry) -> bool {
    let user_id = match &entry.commit {
        FeedCommit::Event { session, .. } if session == key => return false,
        FeedCommit::Event { session, .. } | FeedCommit::Created { session, .. } => Some(session.user_id()),
        FeedCommit::State { owner, .. } => owner.user_id(),
        _ => return false,
    };
    let of_user = user_id == Some(key.user_id());
    entry.keys().iter().any(|name| name.starts_with("app:") || (of_user && name.starts_with("user:")))
}

/// Streams the frames. `last` is the last event before the stream, from which a page learns whether it has missed
/// events.
fn frames(
    mut watch: Watch<Arc<dyn SessionService>>,
    last: Option<u64>,
    mut shared: SharedKeyChanges,
) -> impl Stream<Item = Bytes> + Send + 'static {
    async_stream::stream! {
        let _open = Gauge::one_more("scratchbook_watchers");
        yield place("retry: 1000\n", watch.cursor());
        if let Some(last) = last {
            yield sse::frame("message", &json!({"last": last}));
        }
        loop {
            let next = tokio::select! {
                next = timeout(sse::HEARTBEAT, watch.next()) => next,
                () = shared.changed() => {
                    yield changed(watch.cursor());
                    continue;
                }
            };
            match next {
                Ok(Ok(entry)) => yield frame(&entry),
                Ok(Err(error)) if error.is_retryable() => sleep(PAUSE).await,
                Ok(Err(error)) => {
                    // After any other error the page connects again, and the answer to that request has the reason.
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

/// Returns a frame without data: it advances the client's cursor but is no event.
fn place(before: &str, cursor: &FeedCursor) -> Bytes {
    format!("{before}id: {}\n\n", encoded(cursor.as_str())).into()
}

/// Returns a frame that says that the state has changed without an event of the session.
fn changed(cursor: &FeedCursor) -> Bytes {
    format!("id: {}\ndata: {{}}\n\n", encoded(cursor.as_str())).into()
}

fn frame(entry: &FeedEntry) -> Bytes {
    let data = match &entry.commit {
        FeedCommit::Event { event, .. } => json!({"seq": event.seq}),
        FeedCommit::Removed(removal) => json!({"gone": removal.kind != RemovalKind::Pruned}),
        _ => json!({}),
    };
    format!("id: {}\ndata: {}\n\n", encoded(entry.cursor.as_str()), sse::line(&data)).into()
}
