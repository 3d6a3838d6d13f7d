//! `/run_live`: the WebSocket of live sessions, which this server does not support. As ADK does for a model without
//! live sessions, the server opens the connection and closes it with a reason. A browser tells its page the reason of a
//! close, but nothing about a refused handshake.
//!
//! The server sends only the close, which is a single frame, so it needs no WebSocket library.

use std::time::Duration;

use axum::extract::Request;
use axum::http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::AdkError;

/// The suffix that RFC 6455 adds to every key (1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The status of a close caused by the server (7.4.1), which ADK sends.
const INTERNAL_ERROR: u16 = 1011;

/// The reason of the close; at most 123 bytes.
const REASON: &str = "Live connection is not supported by this server.";

/// How long the client may take to answer the close.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many closes may wait for their answer at a time. Their connections no longer count among the open connections.
static WAITED_FOR: Semaphore = Semaphore::const_new(64);

pub(super) async fn live(mut request: Request) -> Response {
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let (Some(accept), Some(upgrade)) = (accept(request.headers()), upgrade) else {
        // For other requests the path does not exist, as in ADK.
        return AdkError::not_found().into_response();
    };
    tokio::spawn(async move {
        match upgrade.await {
            Ok(socket) => end(TokioIo::new(socket), &WAITED_FOR).await,
            Err(error) => tracing::debug!(%error, "a live connection was gone at once"),
        }
    });
    let headers =
        [(CONNECTION, "upgrade".to_owned()), (UPGRADE, "websocket".to_owned()), (SEC_WEBSOCKET_ACCEPT, accept)];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

/// Returns the value of `Sec-WebSocket-Accept` for a handshake, or `None` if the request is no handshake (RFC 6455,
/// 4.2.1).
fn accept(headers: &HeaderMap) -> Option<String> {
    let has = |name: HeaderName, word: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    let is_handshake = has(CONNECTION, "upgrade") && has(UPGRADE, "websocket") && has(SEC_WEBSOCKET_VERSION, "13");
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| is_handshake)?;
    let whole = [key.as_bytes(), GUID.as_bytes()].concat();
    Some(STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &whole)))
}

/// Sends the close, and waits a moment for the client's answer, unless too many are waiting already.
async fn end(mut socket: impl AsyncRead + AsyncWrite + Unpin, waited_for: &Semaphore) {
    let said = async {
        socket.write_all(&last_frame()).await?;
        socket.flush().await?;
        // Any bytes may arrive: the client's close, or audio that the client sent before it.
        if let Ok(_seat) = waited_for.try_acquire() {
            let mut part = [0; 1024];
            while socket.read(&mut part).await? > 0 {
                if part[0] & 0x0f == 0x8 {
                    break;
                }
            }
        }
        socket.shutdown().await
    };
    if let Ok(Err(error)) = timeout(PATIENCE, said).await {
        tracing::debug!(%error, "a live connection broke off");
    }
}

/// Returns the frame that closes a connection (RFC 6455, 5.5.1).
fn last_frame() -> Vec<u8> {
    let [high, low] = INTERNAL_ERROR.to_be_bytes();
    // The length is less than 126, so one byte holds it.
    let length = (REASON.len() + 2) as u8;
    [&[0x88, length, high, low], REASON.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_handshake_is_answered_as_the_standard_shows_it() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")] {
            headers.insert(name, value.parse().unwrap());
        }
        assert_eq!(accept(&headers), None);
        headers.insert("sec-websocket-version", "13".parse().unwrap());
        headers.insert("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==".parse().unwrap());
        assert_eq!(accept(&headers).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[tokio::test]
    async fn a_client_that_says_nothing_is_waited_for_a_moment_while_few_are() {
        for (seats, waits) in [(0, false), (1, true)] {
            let (ours, mut theirs) = tokio::io::duplex(1024);
            let begun = Instant::now();
            end(ours, &Semaphore::new(seats)).await;
            assert_eq!(begun.elapsed() >= PATIENCE, waits, "{seats}");
            let mut said = Vec::new();
            theirs.read_to_end(&mut said).await.unwrap();
            assert_eq!(said, last_frame());
        }
    }

    #[test]
    fn the_reason_fits_a_frame() {
        assert!(REASON.len() <= 123);
    }
}
