//! The way of a request to its answer: sent, tried again, and read while it comes.

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use async_stream::try_stream;
use futures_util::Stream;
use genai::Error as GenaiError;
use genai::chat::{ChatFrameSink, ChatOptions, ChatRequest, ChatStream, FrameCtx, RawFrameRef};
use serde_json::Value;

use super::answer::{Answer, Thoughts};
use super::{Dialect, Wire, anthropic, ollama, openai, options, request, responses};
use crate::error::Result;
use crate::model::remote::client::Call;
use crate::model::remote::retry::Failure;
use crate::model::{LlmRequest, LlmResponse, LlmStream};

pub(super) fn generate(call: Call, request: LlmRequest) -> LlmStream {
    Box::pin(try_stream! {
        let asked = Asked::new(call, &request)?;
        if !request.stream {
            yield asked.whole().await?;
            return;
        }
        let (mut answer, mut frames, first) = asked.begin().await?;
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
    dialect: Dialect,
    chat: ChatRequest,
    options: ChatOptions,
    thoughts: Thoughts,
}

impl Asked {
    fn new(call: Call, request: &LlmRequest) -> Result<Self> {
        let dialect = Dialect::new(call.target.provider, &call.target.model);
        let chat = request::chat(request, &dialect)?;
        let options = options::options(request, &dialect)?;
        Ok(Self { call, dialect, chat, options, thoughts: options::thoughts(&request.config) })
    }

    /// The answer in one piece.
    async fn whole(&self) -> Result<LlmResponse> {
        let body = self.call.patience.attempt(|| self.body()).await?;
        let mut answer = Answer::default();
        match self.dialect.wire {
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

    async fn body(&self) -> Result<Value, Failure> {
        match self.call.genai.exec_chat(self.call.model(), self.chat.clone(), Some(&self.options)).await {
            Ok(response) => Ok(response.captured_raw_body.unwrap_or_default()),
            // It came, but genai does not know what to make of it.
            Err(GenaiError::ChatResponseGeneration { response_body, .. }) => Ok(*response_body),
            Err(error) => Err(self.call.failure(error)),
        }
    }

    /// Sends the request until frames of an answer come.
    async fn begin(&self) -> Result<(Answer, Frames, Vec<String>)> {
        let attempt = || async {
            let sink = Arc::new(Sink::default());
            let options = self.options.clone().with_raw_frame_sink_arc(sink.clone());
            let sent = self.call.genai.exec_chat_stream(self.call.model(), self.chat.clone(), Some(&options)).await;
            let stream = sent.map_err(|error| self.call.failure(error))?.stream;
            let mut frames = Frames { stream, sink, failure: None };
            let first = frames.next().await.map_err(|error| self.call.failure(error))?;
            Ok((Answer::default(), frames, first.unwrap_or_default()))
        };
        self.call.patience.attempt(attempt).await
    }

    /// Further frames; none at the end. What goes wrong after the answer is whole does not matter to it.
    async fn more(&self, frames: &mut Frames, answer: &Answer) -> Result<Option<Vec<String>>> {
        let next = async { frames.next().await.map_err(|error| self.call.failure(error)) };
        match self.call.patience.in_time(next).await {
            Err(_) if answer.has_ended() => Ok(None),
            next => next.map_err(|failure| failure.error),
        }
    }

    fn read(&self, frame: &str, answer: &mut Answer) -> Result<()> {
        let frame = frame.trim();
        if frame.is_empty() {
            return Ok(());
        }
        if frame == openai::DONE && matches!(self.dialect.wire, Wire::Chat | Wire::Responses) {
            answer.end();
            return Ok(());
        }
        let json: Value = serde_json::from_str(frame).map_err(|_| self.call.unreadable("malformed JSON"))?;
        if !json.is_object() {
            return Err(self.call.unreadable("what is no answer"));
        }
        match self.dialect.wire {
            Wire::Chat => openai::read(&json, answer),
            Wire::Responses => responses::event(&json, answer),
            Wire::Anthropic => anthropic::event(&json, answer),
            Wire::Ollama => ollama::read(&json, answer),
        }
        Ok(())
    }

    fn response(&self, answer: Answer) -> LlmResponse {
        let usage = match self.dialect.wire {
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

/// The frames of an answer as they come.
struct Frames {
    stream: ChatStream,
    sink: Arc<Sink>,
    /// What went wrong after frames that are still to be read.
    failure: Option<GenaiError>,
}

impl Frames {
    /// The next frames; `None` at the end.
    async fn next(&mut self) -> Result<Option<Vec<String>>, GenaiError> {
        poll_fn(|context| {
            loop {
                if let Some(error) = self.failure.take() {
                    return Poll::Ready(Err(error));
                }
                let polled = Pin::new(&mut self.stream).poll_next(context);
                let frames = self.sink.take();
                match polled {
                    Poll::Ready(Some(Err(error))) if is_of_transport(&error) => self.failure = Some(error),
                    Poll::Ready(None) if frames.is_empty() => return Poll::Ready(Ok(None)),
                    Poll::Pending if frames.is_empty() => return Poll::Pending,
                    // What genai makes of a frame, and its complaints, are nothing to us.
                    Poll::Ready(_) | Poll::Pending => {}
                }
                if !frames.is_empty() {
                    return Poll::Ready(Ok(Some(frames)));
                }
            }
        })
        .await
    }
}

fn is_of_transport(error: &GenaiError) -> bool {
    use GenaiError as E;
    matches!(error, E::WebStream { .. } | E::HttpError { .. } | E::WebModelCall { .. } | E::WebAdapterCall { .. })
}

/// Keeps what came until it is read.
#[derive(Default)]
struct Sink(Mutex<Vec<String>>);

impl Sink {
    fn take(&self) -> Vec<String> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ChatFrameSink for Sink {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(frame.data.to_owned());
    }
}
