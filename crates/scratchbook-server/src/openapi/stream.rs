//! Streams.

use utoipa::ToSchema;

/// A server-sent event, as its fields are in the stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is written as text; this is for the document")]
pub(crate) struct StreamEvent {
    /// The type of the event. Absent for entries of a feed. `error` has the reason why the stream ends.
    event: Option<String>,
    /// Its position in the stream. Send it as `Last-Event-ID` to resume after it.
    id: Option<String>,
    /// JSON on one line. Absent if only the position has changed.
    data: Option<String>,
    /// How many milliseconds to wait before connecting again.
    retry: Option<u64>,
}
