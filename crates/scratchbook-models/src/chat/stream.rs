//! The way of a request to its answer: sent, tried again, and read while it comes.

use async_stream::try_stream;
use serde_json::Value;

use super::answer::{Answer, Thoughts};
use super::frames::{Frames, Sent};
use super::{Dialect, Wire, anthropic, ollama, openai, options, request, responses};
use crate::client::Call;
use crate::retry::Failure;
use scratchbook_agent::model::{LlmRequest, LlmResponse, LlmStream};
use scratchbook_core::error::Result;

pub(super) fn generate(call: Call, request: LlmRequest) -> LlmStream {
    Box::pin(try_stream! {
        let asked = Asked::new(call, &request)?;
        if !request.stream {
            yield asked.whole().await?;
            return;
        }
        let (mut frames, first) = asked.call.patience.attempt(|| asked.begin()).await?;
        let mut answer = Answer::default();
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

/// A request in the provider's words, and how to read what comes back.
struct Asked {
    call: Call,
    wire: Wire,
    sent: Sent,
    thoughts: Thoughts,
}

impl Asked {
    fn new(call: Call, request: &LlmRequest) -> Result<Self> {
        let dialect = Dialect::new(call.target.provider, &call.target.model);
        options::refuse(&request.config, &dialect)?;
        let chat = request::chat(request, &dialect)?;
        let sent = match dialect.wire {
            Wire::Ollama => Sent::Ollama(ollama::request_body(request, chat, &dialect.model)?),
            _ => Sent::Genai(chat, Box::new(options::options(request, &dialect)?)),
        };
        Ok(Self { call, wire: dialect.wire, sent, thoughts: options::thoughts(&request.config) })
    }

    /// The answer in one piece.
    async fn whole(&self) -> Result<LlmResponse> {
        let attempt = || async { self.no_complaint(self.sent.whole(&self.call).await?) };
        let body = self.call.patience.attempt(attempt).await?;
        let mut answer = Answer::default();
        match self.wire {
            Wire::Chat => openai::whole(&body, &mut answer),
            Wire::Responses => responses::response(&body, &mut answer),
            Wire::Anthropic => anthropic::message(&body, &mut answer),
            Wire::Ollama => ollama::read(&body, &mut answer),
        }
        if !answer.has_ended() {
            return Err(self.call.unreadable("what is no answer"));
        }
        Ok(self.response(answer))
    }

    /// Sends the request until an answer begins. What fails up to here was not seen by anybody, so it is as if refused.
    async fn begin(&self) -> Result<(Frames, Vec<String>), Failure> {
        let mut frames = self.sent.frames(&self.call).await?;
        while let Some(first) = frames.next(&self.call).await? {
            let said = first.iter().find(|frame| !frame.trim().is_empty());
            if let Some(frame) = said {
                // What cannot be read is told when it is read.
                self.no_complaint(serde_json::from_str(frame).unwrap_or_default())?;
                return Ok((frames, first));
            }
        }
        Ok((frames, Vec::new()))
    }

    /// What is said in place of an answer has the meaning of the status it stands for.
    fn no_complaint(&self, body: Value) -> Result<Value, Failure> {
        let status = match self.wire {
            Wire::Chat | Wire::Ollama => openai::complaint(&body),
            Wire::Responses => responses::complaint(&body),
            Wire::Anthropic => anthropic::complaint(&body),
        };
        match status {
            Some(status) => Err(self.call.refused_in_body(status, body)),
            None => Ok(body),
        }
    }

    /// Further frames; none at the end. What goes wrong after the answer is whole does not matter to it.
    async fn more(&self, frames: &mut Frames, answer: &Answer) -> Result<Option<Vec<String>>> {
        match self.call.patience.in_time(frames.next(&self.call)).await {
            Err(_) if answer.has_ended() => Ok(None),
            next => next.map_err(|failure| failure.error),
        }
    }

    fn read(&self, frame: &str, answer: &mut Answer) -> Result<()> {
        let frame = frame.trim();
        if frame.is_empty() {
            return Ok(());
        }
        if frame == openai::DONE && matches!(self.wire, Wire::Chat | Wire::Responses) {
            answer.end();
            return Ok(());
        }
        let json: Value =
            scratchbook_core::json::from_str(frame).map_err(|error| self.call.unreadable(&error.to_string()))?;
        if !json.is_object() {
            return Err(self.call.unreadable("what is no answer"));
        }
        match self.wire {
            Wire::Chat => openai::read(&json, answer),
            Wire::Responses => responses::event(&json, answer),
            Wire::Anthropic => anthropic::event(&json, answer),
            Wire::Ollama => ollama::read(&json, answer),
        }
        Ok(())
    }

    fn response(&self, answer: Answer) -> LlmResponse {
        let usage = match self.wire {
            Wire::Chat => openai::usage(answer.usage()),
            Wire::Responses => responses::usage(answer.usage()),
            Wire::Anthropic => anthropic::usage(answer.usage()),
            Wire::Ollama => ollama::usage(answer.usage()),
        };
        let mut response = answer.into_response(usage, self.thoughts);
        response.error_message = response.error_message.map(|said| self.call.quoted(&said));
        response
    }
}
