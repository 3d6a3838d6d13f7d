//! Requests to a server with an address. `rmcp` keeps the session and follows the streams; here each answer is read
//! within its limits, and every failure says in plain words what the server did.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt, future};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use crate::inbound::Inbound;

const SESSION: &str = "mcp-session-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// The shortest pause before a stream that the server has ended is opened again.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);

/// What the server did instead of answering.
#[derive(Debug)]
pub(crate) struct HttpFailure(String);

type Refused = StreamableHttpError<HttpFailure>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// The HTTP client of a session.
#[derive(Clone, Debug)]
pub(crate) struct McpHttpClient {
    pub(crate) http: reqwest::Client,
    pub(crate) inbound: Arc<Inbound>,
}

impl StreamableHttpClient for McpHttpClient {
    type Error = HttpFailure;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth_header: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Refused> {
        let is_in_session = session.is_some();
        let request = self.request(Method::POST, &uri, session, headers).json(&message);
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && is_in_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        let ClientJsonRpcMessage::Request(request) = message else {
            // A notification gets no answer but its status.
            if status.is_success() {
                return Ok(StreamableHttpPostResponse::Accepted);
            }
            return Err(refused(status, &self.text(response).await?));
        };
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let media = media_type(&response);
        let session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        if status.is_success() && media == EVENTS {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        if status.is_success() && media != JSON {
            let message = format!("it sent the content type '{media}'; {JSON} and {EVENTS} are read");
            return Err(failure(message));
        }
        // Only this body can end the call. Without an answer to the call's own id, the call would wait for its time
        // limit: servers that do not know the session, or cannot read the request, answer with the id null or another.
        let text = self.text(response).await?;
        match serde_json::from_str(&text) {
            Ok(message) if answers(&message, &request.id) => Ok(StreamableHttpPostResponse::Json(message, session)),
            Ok(ServerJsonRpcMessage::Error(error)) => Err(refused(status, &error.error.message)),
            _ if status.is_success() => Err(failure("its answer is not one of JSON-RPC 2.0 to this request".into())),
            _ => Err(refused(status, &text)),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Refused> {
        // This error keeps `rmcp` from trying again.
        if self.inbound.fault().is_some() {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let mut request = self.request(Method::GET, &uri, session, headers);
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.map_err(unreachable)?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if status.is_success() && media_type(&response) == EVENTS => Ok(self.events(response)),
            status => Err(refused(status, "in place of a stream")),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth_header: Option<String>,
        headers: Headers,
    ) -> Result<(), Refused> {
        let response = self.request(Method::DELETE, &uri, Some(session), headers).send().await.map_err(unreachable)?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(refused(status, "")),
        }
    }
}

impl McpHttpClient {
    fn request(&self, method: Method, uri: &str, session: Option<Arc<str>>, headers: Headers) -> RequestBuilder {
        let mut request = self.http.request(method, uri).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        match session {
            Some(session) => request.header(SESSION, &*session),
            None => request,
        }
    }

    /// Reads a body that is one message.
    async fn text(&self, mut response: Response) -> Result<String, Refused> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            body.extend_from_slice(&chunk);
            if !self.inbound.count(chunk.len(), body.len()) {
                return Err(failure("it sent more than a limit allows".into()));
            }
        }
        let text = String::from_utf8(body).map_err(|_| failure("its answer is not UTF-8".into()))?;
        Ok(self.inbound.readable(text))
    }

    /// Reads a stream of events. Ends when the server exceeds a limit.
    fn events(&self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let counted = Arc::clone(&self.inbound);
        let mut line = 0_usize;
        let mut event = 0_usize;
        let bytes = response.bytes_stream().take_while(move |chunk| {
            let mut longest = 0;
            let chunk = chunk.as_deref().unwrap_or_default();
            for byte in chunk {
                event += 1;
                longest = longest.max(event);
                match byte {
                    // An empty line ends an event.
                    b'\n' if line == 0 => event = 0,
                    b'\n' => line = 0,
                    b'\r' => {}
                    _ => line += 1,
                }
            }
            future::ready(counted.count(chunk.len(), longest))
        });
        let inbound = Arc::clone(&self.inbound);
        let events = SseStream::from_bytes_stream(bytes).map_ok(move |mut event| {
            event.data = event.data.map(|data| inbound.readable(data));
            event.retry = event.retry.map(|retry| retry.max(SHORTEST_RETRY.as_millis() as u64));
            event
        });
        events.boxed()
    }
}

/// Returns whether a message is the answer to a request. Some servers repeat the id as a string.
fn answers(message: &ServerJsonRpcMessage, asked: &RequestId) -> bool {
    let id = match message {
        ServerJsonRpcMessage::Response(response) => Some(&response.id),
        ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
        _ => None,
    };
    id.is_some_and(|id| id.to_string() == asked.to_string())
}

fn media_type(response: &Response) -> String {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn refused(status: StatusCode, text: &str) -> Refused {
    let text = if text.trim().is_empty() { "no text" } else { text.trim() };
    failure(format!("HTTP {status}: {text}"))
}

fn failure(message: String) -> Refused {
    StreamableHttpError::Client(HttpFailure(message))
}

/// Says why a request could not be sent, or its answer not be read, without the address, which may have a key.
fn unreachable(error: reqwest::Error) -> Refused {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    failure(cause.to_string())
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HttpFailure {}
