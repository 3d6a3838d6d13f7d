//! Streams.

use utoipa::ToSchema;

/// A server-sent event, as its fields are in the stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is written as text; this is for the document")]
pub(crate) struct StreamEvent {
    /// What it is; absent for entries of a feed. `error` says why the stream ends.
    event: Option<String>,
    /// Its position: a client that resumes the stream sends it as `Last-Event-ID`.
    id: Option<String>,
    /// JSON on one line; absent if only the place has moved.
    data: Option<String>,
    /// After how many milliseconds to connect again.
    retry: Option<u64>,
}
