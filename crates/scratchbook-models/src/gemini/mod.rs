//! Models of the Gemini API. [`Content`](scratchbook_core::content::Content) is the API's own type, so requests and
//! answers are converted as JSON, field by field, and nothing is lost in between.

mod frames;
mod path;
mod request;
mod response;
mod schema;
mod stream;

use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Response, Url};
use serde_json::{Map, Value};

use self::frames::SseFrames;
use self::response::answer;
use self::stream::Aggregator;
use super::body::{self, SizeLimit};
use super::client::ModelCall;
use super::retry::{FailedAttempt, RetryAdvice};
use scratchbook_agent::model::{LlmRequest, LlmResponse, LlmStream};
use scratchbook_core::error::{Error, Result};

pub(super) fn generate(call: ModelCall, request: LlmRequest) -> LlmStream {
    Box::pin(async_stream::try_stream! {
        let body = serde_json::to_vec(&request::request_body(&request)?)
            .map_err(|error| Error::internal("a request cannot be written").with_source(error))?;
        if !request.stream {
            yield call.retry_policy.attempt(|| whole(&call, &body)).await?;
            return;
        }
        let (mut pieces, first) = call.retry_policy.attempt(|| first_piece(&call, &body)).await?;
        let mut aggregator = Aggregator::default();
        let mut next = Some(first);
        while let Some(piece) = next {
            if let Some(complaint) = piece.get("error") {
                yield error_response(&call, complaint);
                return;
            }
            let answer = answer(piece).map_err(|error| call.unreadable(&error.to_string()))?;
            if let Some(shown) = answer.and_then(|answer| aggregator.take(answer)) {
                yield shown;
            }
            next = call.retry_policy.in_time(pieces.next()).await.map_err(|failure| failure.error)?;
        }
        yield aggregator.finish().ok_or_else(|| call.broken_off())?;
    })
}

/// Sends the request, and returns an answer that is not streamed.
async fn whole(call: &ModelCall, sent: &[u8]) -> Result<LlmResponse, FailedAttempt> {
    let response = send(call, "generateContent", sent).await?;
    let text = body::whole(call, response).await?;
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(nothing(call));
    }
    let body = no_complaint(call, object(call, &text)?)?;
    let answer = answer(body).map_err(|error| call.unreadable(&error.to_string()))?;
    answer.map(|answer| answer.response).ok_or_else(|| call.unreadable("no first candidate").into())
}

/// Returns the first piece of a streamed answer. An error up to here can be retried, since nothing was shown yet.
async fn first_piece<'a>(
    call: &'a ModelCall,
    body: &[u8],
) -> Result<(StreamedPieces<'a>, Map<String, Value>), FailedAttempt> {
    let response = send(call, "streamGenerateContent", body).await?;
    let mut pieces = StreamedPieces { call, response, frames: SseFrames::default(), limit: SizeLimit::default() };
    let first = pieces.next().await?.ok_or_else(|| nothing(call))?;
    Ok((pieces, no_complaint(call, first)?))
}

/// Returns an error if the body is an error response. The kind of the error follows from the status in the response.
fn no_complaint(call: &ModelCall, body: Map<String, Value>) -> Result<Map<String, Value>, FailedAttempt> {
    let Some(complaint) = body.get("error") else {
        return Ok(body);
    };
    let code = complaint.get("code").and_then(Value::as_u64).and_then(|code| code.try_into().ok());
    Err(call.refused_in_body(code.unwrap_or(500), body.into()))
}

async fn send(call: &ModelCall, method: &str, sent: &[u8]) -> Result<Response, FailedAttempt> {
    let mut request = call.http.post(url(call, method)?).header(CONTENT_TYPE, "application/json").body(sent.to_vec());
    if let Some(key) = &call.key {
        let mut key =
            HeaderValue::from_str(key.as_str()).map_err(|_| Error::invalid("the key holds what no HTTP header can"))?;
        key.set_sensitive(true);
        request = request.header("x-goog-api-key", key);
    }
    let response = request.send().await.map_err(|error| call.unreached(error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let headers = response.headers().clone();
    Err(call.refused(status, &headers, &body::complaint(response).await))
}

fn url(call: &ModelCall, method: &str) -> Result<Url> {
    let mut url = call.endpoint.clone().ok_or_else(|| Error::internal("a model of the Gemini API has no address"))?;
    let model = &call.target.model;
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty();
        if !model.contains('/') {
            segments.push("models");
        }
        segments.extend(format!("{model}:{method}").split('/'));
    }
    if method == "streamGenerateContent" {
        url.set_query(Some("alt=sse"));
    }
    Ok(url)
}

/// The pieces of a streamed answer.
struct StreamedPieces<'a> {
    call: &'a ModelCall,
    response: Response,
    frames: SseFrames,
    limit: SizeLimit,
}

impl StreamedPieces<'_> {
    async fn next(&mut self) -> Result<Option<Map<String, Value>>, FailedAttempt> {
        loop {
            if let Some(frame) = self.frames.next() {
                return Ok(Some(object(self.call, &frame)?));
            }
            match self.response.chunk().await.map_err(|error| self.call.unreached(error))? {
                Some(bytes) => {
                    self.limit.take(self.call, bytes.len())?;
                    self.frames.push(&bytes);
                }
                // A stream that ends within a piece was interrupted. This is not reported as a malformed piece.
                None => match self.frames.rest() {
                    Some(rest) => return object(self.call, &rest).map(Some).map_err(|_| self.call.broken_off().into()),
                    None => return Ok(None),
                },
            }
        }
    }
}

fn object(call: &ModelCall, text: &[u8]) -> Result<Map<String, Value>> {
    scratchbook_core::json::from_slice(text).map_err(|error| call.unreadable(&error.to_string()))
}

/// Returns the failure for an empty response, which some proxies send.
fn nothing(call: &ModelCall) -> FailedAttempt {
    FailedAttempt { error: call.unreadable("nothing"), retry: RetryAdvice::Later }
}

/// Returns the response for an error that the provider reports after pieces of its answer.
fn error_response(call: &ModelCall, complaint: &Value) -> LlmResponse {
    let text = |name: &str| complaint.get(name).and_then(Value::as_str).map(str::to_owned);
    LlmResponse {
        error_code: text("status").or_else(|| complaint.get("code").map(Value::to_string)),
        error_message: text("message").map(|said| call.quoted(&said)),
        partial: Some(false),
        ..LlmResponse::default()
    }
}
