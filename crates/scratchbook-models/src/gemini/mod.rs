//! Models of the Gemini API. [`Content`](scratchbook_core::content::Content) is the API's own type, so requests and
//! answers are converted as JSON, field by field, and nothing is lost in between.

mod path;
mod request;
mod response;
mod schema;
mod stream;

use std::collections::VecDeque;

use reqwest::Url;
use serde_json::{Map, Value};

use self::response::answer;
use self::stream::Aggregator;
use super::body;
use super::client::ModelCall;
use super::frames::{FrameFormat, Frames, read_json};
use super::retry::{FailedAttempt, RetryAdvice};
use scratchbook_agent::model::{LlmRequest, LlmResponse, LlmStream};
use scratchbook_core::error::{Error, Result};

pub(super) fn generate(call: ModelCall, request: LlmRequest) -> LlmStream {
    Box::pin(async_stream::try_stream! {
        let body = serde_json::to_vec(&request::request_body(&request)?)
            .map_err(|error| Error::internal("a request cannot be written").with_source(error))?;
        let policy = call.retry_policy;
        if !request.stream {
            let whole = policy.attempt(|| policy.in_time(whole(&call, &body))).await;
            yield whole.map_err(|failure| failure.error)?;
            return;
        }
        let mut streamed = match policy.attempt(|| begin(&call, &body)).await {
            Ok(begun) => begun,
            Err(FailedAttempt { answer: Some(answer), .. }) => {
                yield *answer;
                return;
            }
            Err(failure) => Err(failure.error)?,
        };
        loop {
            for shown in std::mem::take(&mut streamed.shown) {
                yield shown;
            }
            let Some(piece) = policy.in_time(streamed.pieces.next()).await.map_err(|failure| failure.error)? else {
                break;
            };
            if let Some(complaint) = piece.get("error") {
                yield error_response(&call, complaint);
                return;
            }
            streamed.add(&call, piece)?;
        }
        yield streamed.aggregator.finish().ok_or_else(|| call.broken_off())?;
    })
}

/// Sends the request, and returns an answer that is not streamed.
async fn whole(call: &ModelCall, sent: &[u8]) -> Result<LlmResponse, FailedAttempt> {
    let response = call.send(url(call, "generateContent"), sent).await?;
    let text = body::whole(call, response).await?;
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(nothing(call));
    }
    let Value::Object(body) = read_json(call, &text, &mut String::new())? else {
        return Err(call.unreadable("what is no answer").into());
    };
    let body = no_complaint(call, body)?;
    let answer = answer(body).map_err(|error| call.unreadable(&error.to_string()))?;
    answer.map(|answer| answer.response).ok_or_else(|| call.unreadable("no first candidate").into())
}

/// Sends the request and reads the answer until there is something to show. An error up to here can be retried.
async fn begin<'a>(call: &'a ModelCall, body: &[u8]) -> Result<StreamedAnswer<'a>, FailedAttempt> {
    let policy = call.retry_policy;
    let first = async {
        let response = call.send(url(call, "streamGenerateContent"), body).await?;
        let frames = Frames::new(response, FrameFormat::ServerSentEvents);
        let mut pieces = StreamedPieces { call, frames, ready: VecDeque::new() };
        let first = pieces.next().await?.ok_or_else(|| nothing(call))?;
        Ok((pieces, no_complaint(call, first)?))
    };
    let (pieces, first) = policy.in_time(first).await?;
    let mut streamed = StreamedAnswer { pieces, aggregator: Aggregator::default(), shown: Vec::new() };
    streamed.add(call, first)?;
    let is_shown = |shown: &LlmResponse| {
        shown.error_code.is_some() || shown.content.as_ref().is_some_and(|content| !content.parts().is_empty())
    };
    while !streamed.shown.iter().any(is_shown) {
        let Some(piece) = policy.in_time(streamed.pieces.next()).await? else {
            break;
        };
        let said = piece.get("error").map(|complaint| error_response(call, complaint));
        let piece =
            no_complaint(call, piece).map_err(|failure| FailedAttempt { answer: said.map(Box::new), ..failure })?;
        streamed.add(call, piece)?;
    }
    Ok(streamed)
}

/// Returns an error if the body is an error response. The kind of the error follows from the status in the response.
fn no_complaint(call: &ModelCall, body: Map<String, Value>) -> Result<Map<String, Value>, FailedAttempt> {
    let Some(complaint) = body.get("error") else {
        return Ok(body);
    };
    let code = complaint.get("code").and_then(Value::as_u64).and_then(|code| code.try_into().ok());
    Err(call.refused_in_body(code.unwrap_or(500), body.into()))
}

fn url(call: &ModelCall, method: &str) -> Url {
    let mut url = call.endpoint.clone();
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
    url
}

/// An answer that arrives in pieces.
struct StreamedAnswer<'a> {
    pieces: StreamedPieces<'a>,
    aggregator: Aggregator,
    /// Pieces that are not shown yet.
    shown: Vec<LlmResponse>,
}

impl StreamedAnswer<'_> {
    fn add(&mut self, call: &ModelCall, piece: Map<String, Value>) -> Result<()> {
        let answer = answer(piece).map_err(|error| call.unreadable(&error.to_string()))?;
        self.shown.extend(answer.and_then(|answer| self.aggregator.take(answer)));
        Ok(())
    }
}

/// The pieces of a streamed answer. Without server-sent events, they are the items of one list.
struct StreamedPieces<'a> {
    call: &'a ModelCall,
    frames: Frames,
    ready: VecDeque<Value>,
}

impl StreamedPieces<'_> {
    async fn next(&mut self) -> Result<Option<Map<String, Value>>, FailedAttempt> {
        loop {
            match self.ready.pop_front() {
                Some(Value::Object(piece)) => return Ok(Some(piece)),
                Some(_) => return Err(self.call.unreadable("what is no answer").into()),
                None => {}
            }
            match self.frames.next(self.call).await? {
                Some(Value::Array(pieces)) => self.ready.extend(pieces),
                Some(piece) => self.ready.push_back(piece),
                None => return Ok(None),
            }
        }
    }
}

/// Returns the failure for an empty response, which some proxies send.
fn nothing(call: &ModelCall) -> FailedAttempt {
    FailedAttempt { error: call.unreadable("nothing"), retry: RetryAdvice::Later, answer: None }
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
