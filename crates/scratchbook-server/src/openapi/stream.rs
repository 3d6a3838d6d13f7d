//! Streams.

use utoipa::ToSchema;

/// The fields of a server-sent event in the stream.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is written as text; this is for the document")]
pub(crate) struct StreamEvent {
    /// The type of the event. Absent for entries of a feed. An event of the type `error` says why the stream ends.
    event: Option<String>,
    /// The position of the event in the stream. Send it as `Last-Event-ID` to resume after this event.
    id: Option<String>,
    /// JSON on one line. Absent if only the position has changed.
    data: Option<String>,
    /// The time to wait before connecting again, in milliseconds.
    retry: Option<u64>,
}
