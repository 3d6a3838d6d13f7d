//! Sends a request, retries it, and reads the answer while it arrives.

use async_stream::try_stream;
use serde_json::Value;

use super::answers::{CollectedAnswer, Thoughts, anthropic, openai, responses};
use super::frames::{AnswerFrames, ProviderRequest};
use super::{ProviderProfile, WireProtocol, ollama, options, request};
use crate::client::ModelCall;
use crate::retry::FailedAttempt;
use scratchbook_agent::model::{LlmRequest, LlmResponse, LlmStream};
use scratchbook_core::error::Result;

pub(super) fn generate(call: ModelCall, request: LlmRequest) -> LlmStream {
    Box::pin(try_stream! {
        let asked = PreparedRequest::new(call, &request)?;
        if !request.stream {
            yield asked.whole().await?;
            return;
        }
        let (mut frames, first) = asked.call.retry_policy.attempt(|| asked.begin()).await?;
        let mut answer = CollectedAnswer::default();
        let mut next = Some(first);
        while let Some(read) = next.take() {
            for frame in read {
                asked.read(&frame, &mut answer)?;
                for piece in answer.take_pieces(asked.thoughts) {
                    yield piece;
                }
                if answer.is_closed() {
                    break;
                }
            }
            if !answer.is_closed() {
                next = asked.more(&mut frames, &answer).await?;
            }
        }
        if !answer.has_ended() {
            Err(asked.call.broken_off())?;
        }
        let mut whole = asked.response(answer);
        whole.partial = Some(false);
        yield whole;
    })
}

/// A request in the provider's form, and how its answer is read.
struct PreparedRequest {
    call: ModelCall,
    wire: WireProtocol,
    sent: ProviderRequest,
    thoughts: Thoughts,
}

impl PreparedRequest {
    fn new(call: ModelCall, request: &LlmRequest) -> Result<Self> {
        let profile = ProviderProfile::new(call.target.provider, &call.target.model);
        options::refuse(&request.config, &profile)?;
        let chat = request::chat(request, &profile)?;
        let sent = match profile.wire {
            WireProtocol::Ollama => ProviderRequest::Ollama(ollama::request_body(request, chat, &profile.model)?),
            _ => ProviderRequest::Genai(chat, Box::new(options::options(request, &profile)?)),
        };
        Ok(Self { call, wire: profile.wire, sent, thoughts: options::thoughts(&request.config) })
    }

    /// Sends the request, and returns an answer that is not streamed.
    async fn whole(&self) -> Result<LlmResponse> {
        let attempt = || async { self.no_complaint(self.sent.whole(&self.call).await?) };
        let body = self.call.retry_policy.attempt(attempt).await?;
        let mut answer = CollectedAnswer::default();
        match self.wire {
            WireProtocol::Chat => openai::whole(&body, &mut answer),
            WireProtocol::Responses => responses::response(&body, &mut answer),
            WireProtocol::Anthropic => anthropic::message(&body, &mut answer),
            WireProtocol::Ollama => ollama::read(&body, &mut answer),
        }
        if !answer.has_ended() {
            return Err(self.call.unreadable("what is no answer"));
        }
        Ok(self.response(answer))
    }

    /// Sends the request and waits for the first frame. An error up to here can be retried, since nothing was shown
    /// yet.
    async fn begin(&self) -> Result<(AnswerFrames, Vec<String>), FailedAttempt> {
        let mut frames = self.sent.frames(&self.call).await?;
        while let Some(first) = frames.next(&self.call).await? {
            let said = first.iter().find(|frame| !frame.trim().is_empty());
            if let Some(frame) = said {
                // A malformed frame is reported when it is read.
                self.no_complaint(serde_json::from_str(frame).unwrap_or_default())?;
                return Ok((frames, first));
            }
        }
        Ok((frames, Vec::new()))
    }

    /// Returns an error if the body is an error response. The kind of the error follows from the response's status.
    fn no_complaint(&self, body: Value) -> Result<Value, FailedAttempt> {
        let status = match self.wire {
            WireProtocol::Chat | WireProtocol::Ollama => openai::complaint(&body),
            WireProtocol::Responses => responses::complaint(&body),
            WireProtocol::Anthropic => anthropic::complaint(&body),
        };
        match status {
            Some(status) => Err(self.call.refused_in_body(status, body)),
            None => Ok(body),
        }
    }

    /// Returns further frames; `None` at the end. Errors after the answer is complete are ignored.
    async fn more(&self, frames: &mut AnswerFrames, answer: &CollectedAnswer) -> Result<Option<Vec<String>>> {
        match self.call.retry_policy.in_time(frames.next(&self.call)).await {
            Err(_) if answer.has_ended() => Ok(None),
            next => next.map_err(|failure| failure.error),
        }
    }

    fn read(&self, frame: &str, answer: &mut CollectedAnswer) -> Result<()> {
        let frame = frame.trim();
        if frame.is_empty() {
            return Ok(());
        }
        if frame == openai::DONE && matches!(self.wire, WireProtocol::Chat | WireProtocol::Responses) {
            answer.end();
            return Ok(());
        }
        let json: Value =
            scratchbook_core::json::from_str(frame).map_err(|error| self.call.unreadable(&error.to_string()))?;
        if !json.is_object() {
            return Err(self.call.unreadable("what is no answer"));
        }
        match self.wire {
            WireProtocol::Chat => openai::read(&json, answer),
            WireProtocol::Responses => responses::event(&json, answer),
            WireProtocol::Anthropic => anthropic::event(&json, answer),
            WireProtocol::Ollama => ollama::read(&json, answer),
        }
        Ok(())
    }

    fn response(&self, answer: CollectedAnswer) -> LlmResponse {
        let usage = match self.wire {
            WireProtocol::Chat => openai::usage(answer.usage()),
            WireProtocol::Responses => responses::usage(answer.usage()),
            WireProtocol::Anthropic => anthropic::usage(answer.usage()),
            WireProtocol::Ollama => ollama::usage(answer.usage()),
        };
        let mut response = answer.into_response(usage, self.thoughts);
        response.error_message = response.error_message.map(|said| self.call.quoted(&said));
        response
    }
}
