//! Sends a request, retries it, and reads the answer while it arrives.

use async_stream::try_stream;
use reqwest::{Response, Url};
use serde_json::{Value, json};

use super::answers::{CollectedAnswer, Thoughts, anthropic, ollama, openai, responses};
use super::request::Conversation;
use super::{ProviderProfile, WireProtocol, options, write};
use crate::body;
use crate::client::ModelCall;
use crate::frames::{DONE, FrameFormat, Frames, read_json};
use crate::retry::{FailedAttempt, RetryAdvice};
use scratchbook_agent::model::{LlmRequest, LlmResponse, LlmStream};
use scratchbook_core::error::{Error, Result};

pub(super) fn generate(call: ModelCall, request: LlmRequest) -> LlmStream {
    Box::pin(try_stream! {
        let asked = PreparedRequest::new(call, &request)?;
        let policy = asked.call.retry_policy;
        if !request.stream {
            let whole = policy.attempt(|| policy.in_time(asked.whole())).await;
            yield whole.map_err(|failure| failure.error)?;
            return;
        }
        let mut streamed = match policy.attempt(|| asked.begin()).await {
            Ok(begun) => begun,
            Err(FailedAttempt { answer: Some(answer), .. }) => {
                yield *answer;
                return;
            }
            Err(failure) => Err(failure.error)?,
        };
        loop {
            for piece in streamed.answer.take_pieces(asked.thoughts) {
                yield piece;
            }
            if streamed.answer.is_closed() {
                break;
            }
            match policy.in_time(streamed.frames.next(&asked.call)).await {
                Ok(Some(frame)) => asked.read(&frame, &mut streamed.answer)?,
                Ok(None) => break,
                // Errors after the answer is complete are ignored.
                Err(_) if streamed.answer.has_ended() => break,
                Err(failure) => Err(failure.error)?,
            }
        }
        if !streamed.answer.has_ended() {
            Err(asked.call.broken_off())?;
        }
        let mut whole = asked.response(streamed.answer);
        whole.partial = Some(false);
        yield whole;
    })
}

/// A request in the provider's form, and how its answer is read.
struct PreparedRequest {
    call: ModelCall,
    profile: ProviderProfile,
    url: Url,
    body: Vec<u8>,
    thoughts: Thoughts,
}

/// An answer that arrives in pieces.
struct StreamedAnswer {
    frames: Frames,
    answer: CollectedAnswer,
}

impl PreparedRequest {
    fn new(call: ModelCall, request: &LlmRequest) -> Result<Self> {
        let profile = ProviderProfile::new(&call);
        options::refuse(&request.config, &profile)?;
        let body = write::body(&Conversation::new(request, &profile)?)?;
        let path = match profile.wire {
            WireProtocol::Chat => "chat/completions",
            WireProtocol::Responses => "responses",
            WireProtocol::Anthropic => "messages",
            WireProtocol::Ollama => "api/chat",
        };
        let wrong =
            |error| Error::invalid("an endpoint is an address such as 'https://example.com/v1'").with_source(error);
        let url = call.endpoint.join(path).map_err(wrong)?;
        let body = serde_json::to_vec(&body)
            .map_err(|error| Error::internal("a request cannot be written").with_source(error))?;
        let thoughts = options::thoughts(&request.config);
        Ok(Self { profile, url, body, thoughts, call })
    }

    async fn send(&self) -> Result<Response, FailedAttempt> {
        self.call.send(self.url.clone(), &self.body).await
    }

    /// Sends the request, and returns an answer that is not streamed.
    async fn whole(&self) -> Result<LlmResponse, FailedAttempt> {
        let text = body::whole(&self.call, self.send().await?).await?;
        let body = read_json(&self.call, &text, &mut String::new())?;
        if let Some(failure) = self.complaint(&body) {
            return Err(failure);
        }
        let mut answer = CollectedAnswer::default();
        match self.profile.wire {
            WireProtocol::Chat => openai::read(&body, &mut answer),
            WireProtocol::Responses => responses::response(&body, &mut answer),
            WireProtocol::Anthropic => anthropic::message(&body, &mut answer),
            WireProtocol::Ollama => ollama::read(&body, &mut answer),
        }
        if !answer.has_ended() {
            return Err(self.call.unreadable("what is no answer").into());
        }
        Ok(self.response(answer))
    }

    /// Sends the request and reads the answer until there is something to show. An error up to here can be retried.
    async fn begin(&self) -> Result<StreamedAnswer, FailedAttempt> {
        let format = match self.profile.wire {
            WireProtocol::Ollama => FrameFormat::Lines,
            _ => FrameFormat::ServerSentEvents,
        };
        let policy = self.call.retry_policy;
        let first = async {
            let mut frames = Frames::new(self.send().await?, format);
            let first = frames.next(&self.call).await?;
            Ok((frames, first))
        };
        let (mut frames, mut next) = policy.in_time(first).await?;
        let mut answer = CollectedAnswer::default();
        let mut has_begun = false;
        while let Some(frame) = next {
            let complaint = self.complaint(&frame);
            self.read(&frame, &mut answer)?;
            if let Some(mut failure) = complaint {
                if has_begun {
                    let said = LlmResponse { partial: Some(false), ..self.response(answer) };
                    failure.answer = Some(Box::new(said));
                }
                return Err(failure);
            }
            has_begun = true;
            if answer.has_pieces(self.thoughts) || answer.is_closed() {
                return Ok(StreamedAnswer { frames, answer });
            }
            next = match policy.in_time(frames.next(&self.call)).await {
                Err(_) if answer.has_ended() => None,
                next => next?,
            };
        }
        if answer.has_ended() {
            return Ok(StreamedAnswer { frames, answer });
        }
        Err(FailedAttempt { error: self.call.broken_off(), retry: RetryAdvice::Later, answer: None })
    }

    /// Returns the failure if this is an error in place of an answer. Its kind follows from the status in the error.
    fn complaint(&self, frame: &Value) -> Option<FailedAttempt> {
        let (status, error) = match self.profile.wire {
            WireProtocol::Chat | WireProtocol::Ollama => openai::complaint(frame),
            WireProtocol::Responses => responses::complaint(frame),
            WireProtocol::Anthropic => anthropic::complaint(frame),
        }?;
        Some(self.call.refused_in_body(status, json!({"error": error})))
    }

    fn read(&self, frame: &Value, answer: &mut CollectedAnswer) -> Result<()> {
        if frame == DONE {
            if matches!(self.profile.wire, WireProtocol::Chat | WireProtocol::Responses) {
                answer.end();
            }
            return Ok(());
        }
        if !frame.is_object() {
            return Err(self.call.unreadable("what is no answer"));
        }
        match self.profile.wire {
            WireProtocol::Chat => openai::read(frame, answer),
            WireProtocol::Responses => responses::event(frame, answer),
            WireProtocol::Anthropic => anthropic::event(frame, answer),
            WireProtocol::Ollama => ollama::read(frame, answer),
        }
        Ok(())
    }

    fn response(&self, answer: CollectedAnswer) -> LlmResponse {
        let usage = match self.profile.wire {
            WireProtocol::Chat => openai::usage(answer.usage()),
            WireProtocol::Responses => responses::usage(answer.usage()),
            WireProtocol::Anthropic => anthropic::usage(answer.usage()),
            WireProtocol::Ollama => ollama::usage(answer.usage()),
        };
        let mut response = answer.into_response(usage, self.thoughts, &self.profile.origin);
        response.error_message = response.error_message.map(|said| self.call.quoted(&said));
        response
    }
}
