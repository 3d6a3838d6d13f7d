//! A session as a file, in the format that `scratchbook import --from jsonl` reads.

use async_stream::try_stream;
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use scratchbook::artifact::{all_versions, describe_version};
use scratchbook::session::InitialState;
use scratchbook::state::Scope;
use scratchbook::store::Store;
use scratchbook::store::export::{Counts, ExportLine, FORMAT, VERSION};
use scratchbook::{Error, ErrorKind, GetSessionConfig, Result, Session, SessionKey};
use serde_json::{Map, Value};

use super::super::masks::Masks;
use super::super::{PageAnswer, SessionScope};
use super::read::SessionReader;
use crate::access::Right;
use crate::answers::Share;
use crate::limits::Download;

/// How many events are read at a time.
const EVENTS: usize = 200;
/// About how many bytes of events are read at a time.
const BYTES: u64 = 1 << 20;
/// How many bytes a download takes from the budget of all answers: for a page of events and their lines.
const HELD: usize = 2 << 20;

/// Sends the session as a download, line by line. The memory in use does not grow with the session.
pub(super) async fn download(scope: SessionScope) -> PageAnswer {
    scope.caller.check(Right::Read)?;
    let reader = SessionReader::new(&scope);
    let head = reader.head().await?;
    let Some(initial) = reader.sessions.get_initial_state(&scope.key).await? else {
        return Err(scratchbook::session::no_session(&scope.key).into());
    };
    let mut share = scope.app_state.answers.share(&scope.caller);
    share.grow_to(HELD)?;
    let lines = lines(scope.app_state.store.clone(), scope.key.clone(), head, initial, share);
    Ok(file(scope.key.session_id(), Body::from_stream(lines)))
}

fn file(session_id: &str, body: Body) -> Response {
    let letters = session_id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' });
    let name: String = letters.take(80).collect();
    let disposition = HeaderValue::from_str(&format!("attachment; filename=\"{name}.jsonl\""));
    let disposition = disposition.unwrap_or(HeaderValue::from_static("attachment"));
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/jsonl")),
        (CONTENT_DISPOSITION, disposition),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (Extension(Download), headers, body).into_response()
}

/// Returns the lines: the user with all keys, then the session, its events and its artifacts. The user's line needs all
/// keys because an import sets the user's state to exactly this line. Secrets are masked, as on the pages.
fn lines(
    store: Store,
    key: SessionKey,
    head: Session,
    initial: InitialState,
    mut share: Share,
) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
    try_stream! {
        let (masks, mut counts) = (Masks::of(&head), Counts::default());
        let of_user = store.sessions.get_state(&key.user()).await?;
        let of_user: Map<String, Value> = of_user
            .into_iter()
            .map(|(name, value)| {
                let shown = masks.of_key(&Scope::User.key(&name), &value).into_owned();
                (name, shown)
            })
            .collect();
        yield line(&mut counts, &ExportLine::Header { format: FORMAT, version: VERSION })?;
        yield line(&mut counts, &ExportLine::User { app_name: key.app_name(), user_id: key.user_id(), state: &of_user })?;
        let (pruned, last) = (initial.seq, head.seq());
        let state: Map<String, Value> =
            initial.state.iter().map(|(name, value)| (name.to_owned(), masks.of_key(name, value).into_owned())).collect();
        yield line(&mut counts, &ExportLine::Session {
            id: key.session_id(),
            create_time: (pruned == last).then(|| head.last_update_time()),
            expire_time: head.expire_time(),
            title: head.title(),
            labels: head.labels(),
            state: &state,
            events: last.saturating_sub(pruned),
        })?;
        let mut seq = pruned;
        while seq < last {
            let limit = usize::try_from(last - seq).map_or(EVENTS, |rest| rest.min(EVENTS));
            let config = GetSessionConfig::default().without_state().with_events_after(seq, limit).with_page_bytes(BYTES);
            let page = store.sessions.get_session(&key, &config).await?;
            let events = page.map(|session| session.events().clone()).unwrap_or_default();
            if events.get(0).and_then(|event| event.seq) != Some(seq + 1) {
                let message = "the session was deleted or pruned while it was exported; export it again";
                Err(Error::new(ErrorKind::Conflict, message))?;
            }
            for event in events.iter() {
                seq = event.seq.unwrap_or_default();
                let event = masks.of_event(event)?;
                yield line(&mut counts, &ExportLine::Event { seq: seq - pruned, event: &event })?;
            }
        }
        for filename in store.artifacts.list_artifacts(&key).await? {
            // The artifacts of the user belong to all sessions of the user.
            if filename.starts_with("user:") {
                continue;
            }
            for found in all_versions(store.artifacts.as_ref(), &key, &filename).await? {
                let described = describe_version(store.artifacts.as_ref(), &key, &filename, Some(found.version)).await?;
                let Some(found) = described else { continue };
                let Some(artifact) = store.artifacts.load_artifact(&key, &filename, Some(found.version)).await? else {
                    continue;
                };
                let line = line(&mut counts, &ExportLine::Artifact {
                    filename: &filename,
                    version: found.version,
                    custom_metadata: &found.custom_metadata,
                    artifact: &artifact,
                })?;
                share.grow_to(HELD.max(line.len()))?;
                yield line;
            }
        }
        let end = ExportLine::End(counts);
        yield line(&mut counts, &end)?;
    }
}

fn line(counts: &mut Counts, line: &ExportLine<'_>) -> Result<Bytes> {
    counts.count(line.kind());
    let mut text = Vec::new();
    line.write(&mut text).map_err(unwritable)?;
    Ok(text.into())
}

fn unwritable(error: std::io::Error) -> Error {
    Error::internal("a line cannot be written as JSON").with_source(error)
}
