//! Removes secrets of credentials from answers to callers that are restricted to a user, on all routes.

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::response::Response;
use futures_util::StreamExt;
use http_body_util::BodyExt;
use scratchbook::{Error, Result};

use crate::heavy::off_worker;
use crate::sse::{SIGN_OF_LIFE, on_one_line};
use scratchbook::agent::credentials::{has_marks, without_secrets_or_named};

/// Texts with more bytes are searched on a separate thread, and not on a worker of the runtime.
const LARGE: usize = 64 << 10;

/// The beginning of a line with JSON in a frame.
const DATA: &[u8] = b"data: ";

/// Returns the answer without secrets of credentials.
///
/// # Errors
///
/// `Internal` if the body does not match its content type, which is a defect.
pub(super) async fn to_user(response: Response) -> Result<Response> {
    let kind = response.headers().get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    match kind {
        Some(kind) if kind.starts_with(b"text/event-stream") => {
            Ok(response.map(|body| Body::from_stream(body.into_data_stream().map(|frame| frame.map(frame_to_user)))))
        }
        Some(kind) if kind.starts_with(b"application/json") => json_to_user(response).await,
        _ => Ok(response),
    }
}

async fn json_to_user(response: Response) -> Result<Response> {
    if response.body().size_hint().exact() == Some(0) {
        return Ok(response);
    }
    let (mut parts, body) = response.into_parts();
    let whole = body.collect().await.map_err(|e| Error::internal("an answer broke off").with_source(e))?;
    let text = whole.to_bytes();
    if !has_marks(&text) {
        return Ok(Response::from_parts(parts, text.into()));
    }
    let shown = if text.len() > LARGE {
        off_worker({
            let text = text.clone();
            move || without_secrets_or_named(&text)
        })
        .await?
    } else {
        without_secrets_or_named(&text)
    };
    let shown = shown.map_err(|e| Error::internal("an answer is no JSON").with_source(e))?;
    parts.headers.remove(CONTENT_LENGTH);
    Ok(Response::from_parts(parts, shown.into()))
}

/// Removes secrets from one frame of a stream. A frame is never split, so each can be searched alone.
fn frame_to_user(frame: Bytes) -> Bytes {
    if !has_marks(&frame) {
        return frame;
    }
    let mut shown = Vec::with_capacity(frame.len());
    for line in frame.split_inclusive(|byte| *byte == b'\n') {
        let Some(data) = line.strip_prefix(DATA) else {
            shown.extend_from_slice(line);
            continue;
        };
        let (data, end) = data.strip_suffix(b"\n").map_or((data, &b""[..]), |data| (data, b"\n"));
        match without_secrets_or_named(data) {
            Ok(data) => [DATA, &data, end].into_iter().for_each(|part| shown.extend_from_slice(part)),
            // A frame that cannot be searched is replaced by a heartbeat.
            Err(_) => return SIGN_OF_LIFE,
        }
    }
    on_one_line(shown.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_keeps_its_form() {
        let shown = |frame: &'static str| String::from_utf8(frame_to_user(frame.into()).to_vec()).unwrap();
        let plain = "id: e1\nevent: event\ndata: {\"a\":1}\n\n";
        assert_eq!(shown(plain), plain);
        assert_eq!(
            shown("id: authType\nevent: event\ndata: {\"authType\":\"oauth2\",\"token\":\"hunter2\"}\n\n"),
            "id: authType\nevent: event\ndata: {\"authType\":\"oauth2\"}\n\n"
        );
        assert_eq!(shown("data: authType hunter2\n\n"), ":\n\n");
    }
}
