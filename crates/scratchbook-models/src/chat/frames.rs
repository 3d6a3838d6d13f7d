//! Sends a request, and returns the frames of the answer as they arrive.

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures_util::Stream;
use genai::Error as GenaiError;
use genai::chat::{ChatFrameSink, ChatOptions, ChatRequest, ChatStream, FrameCtx, RawFrameRef};
use serde_json::Value;

use super::ollama;
use super::silenced_tracing::{await_without_tracing, without_tracing};
use crate::body::SizeLimit;
use crate::client::ModelCall;
use crate::retry::FailedAttempt;
use scratchbook_core::error::Result;

/// A request and the client that sends it.
pub(super) enum ProviderRequest {
    Genai(ChatRequest, Box<ChatOptions>),
    /// A JSON body for Ollama, which is sent without genai.
    Ollama(Value),
}

impl ProviderRequest {
    /// Returns the body of an answer that is not streamed.
    pub(super) async fn whole(&self, call: &ModelCall) -> Result<Value, FailedAttempt> {
        let (chat, options) = match self {
            Self::Genai(chat, options) => (chat.clone(), options),
            Self::Ollama(body) => return ollama::whole(call, body).await,
        };
        match await_without_tracing(call.genai.exec_chat(call.model(), chat, Some(options))).await {
            Ok(response) => Ok(response.captured_raw_body.unwrap_or_default()),
            // The answer arrived, but genai cannot parse it.
            Err(GenaiError::ChatResponseGeneration { response_body, .. }) => Ok(*response_body),
            Err(error) => Err(call.failure(error)),
        }
    }

    /// Returns the frames of a streamed answer.
    pub(super) async fn frames(&self, call: &ModelCall) -> Result<AnswerFrames, FailedAttempt> {
        let (chat, options) = match self {
            Self::Genai(chat, options) => (chat.clone(), options.as_ref().clone()),
            Self::Ollama(body) => return ollama::lines(call, body).await.map(AnswerFrames::Lines),
        };
        let sink = Arc::new(Sink::default());
        let options = options.with_raw_frame_sink_arc(sink.clone());
        let sent = await_without_tracing(call.genai.exec_chat_stream(call.model(), chat, Some(&options))).await;
        let stream = sent.map_err(|error| call.failure(error))?.stream;
        Ok(AnswerFrames::Genai(GenaiFrames { stream, sink, failure: None, limit: SizeLimit::default() }))
    }
}

/// The frames of a streamed answer.
pub(super) enum AnswerFrames {
    Genai(GenaiFrames),
    Lines(ollama::Lines),
}

impl AnswerFrames {
    /// Returns the next frames; `None` at the end.
    pub(super) async fn next(&mut self, call: &ModelCall) -> Result<Option<Vec<String>>, FailedAttempt> {
        match self {
            Self::Genai(tapped) => {
                let frames = tapped.next().await.map_err(|error| call.failure(error))?;
                tapped.limit.take(call, frames.iter().flatten().map(String::len).sum())?;
                Ok(frames)
            }
            Self::Lines(lines) => lines.next(call).await,
        }
    }
}

/// A stream of genai, whose frames are taken before genai parses them.
pub(super) struct GenaiFrames {
    stream: ChatStream,
    sink: Arc<Sink>,
    /// An error to return once the frames before it are read.
    failure: Option<GenaiError>,
    limit: SizeLimit,
}

impl GenaiFrames {
    async fn next(&mut self) -> Result<Option<Vec<String>>, GenaiError> {
        poll_fn(|context| {
            loop {
                if let Some(error) = self.failure.take() {
                    return Poll::Ready(Err(error));
                }
                let polled = without_tracing(|| Pin::new(&mut self.stream).poll_next(context));
                let frames = self.sink.take();
                match polled {
                    Poll::Ready(Some(Err(error))) if is_of_transport(&error) => self.failure = Some(error),
                    Poll::Ready(None) if frames.is_empty() => return Poll::Ready(Ok(None)),
                    Poll::Pending if frames.is_empty() => return Poll::Pending,
                    // How genai parses a frame, and its parse errors, do not matter here.
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

/// Keeps frames until they are read.
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
