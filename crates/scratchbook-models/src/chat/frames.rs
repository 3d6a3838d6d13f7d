//! Sends a request, and gives the frames of its answer as they come.

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
use super::quiet::{self, quietly};
use crate::body::Room;
use crate::client::Call;
use crate::retry::Failure;
use scratchbook_core::error::Result;

/// A request, and by whom it is sent.
pub(super) enum Sent {
    Genai(ChatRequest, Box<ChatOptions>),
    /// A body of ours.
    Ollama(Value),
}

impl Sent {
    /// The body of an answer in one piece.
    pub(super) async fn whole(&self, call: &Call) -> Result<Value, Failure> {
        let (chat, options) = match self {
            Self::Genai(chat, options) => (chat.clone(), options),
            Self::Ollama(body) => return ollama::whole(call, body).await,
        };
        match quiet::awaited(call.genai.exec_chat(call.model(), chat, Some(options))).await {
            Ok(response) => Ok(response.captured_raw_body.unwrap_or_default()),
            // It came, but genai does not know what to make of it.
            Err(GenaiError::ChatResponseGeneration { response_body, .. }) => Ok(*response_body),
            Err(error) => Err(call.failure(error)),
        }
    }

    /// The frames of an answer that streams.
    pub(super) async fn frames(&self, call: &Call) -> Result<Frames, Failure> {
        let (chat, options) = match self {
            Self::Genai(chat, options) => (chat.clone(), options.as_ref().clone()),
            Self::Ollama(body) => return ollama::lines(call, body).await.map(Frames::Lines),
        };
        let sink = Arc::new(Sink::default());
        let options = options.with_raw_frame_sink_arc(sink.clone());
        let sent = quiet::awaited(call.genai.exec_chat_stream(call.model(), chat, Some(&options))).await;
        let stream = sent.map_err(|error| call.failure(error))?.stream;
        Ok(Frames::Genai(Tapped { stream, sink, failure: None, room: Room::default() }))
    }
}

/// The frames of an answer as they come.
pub(super) enum Frames {
    Genai(Tapped),
    Lines(ollama::Lines),
}

impl Frames {
    /// The next frames; `None` at the end.
    pub(super) async fn next(&mut self, call: &Call) -> Result<Option<Vec<String>>, Failure> {
        match self {
            Self::Genai(tapped) => {
                let frames = tapped.next().await.map_err(|error| call.failure(error))?;
                tapped.room.take(call, frames.iter().flatten().map(String::len).sum())?;
                Ok(frames)
            }
            Self::Lines(lines) => lines.next(call).await,
        }
    }
}

/// A stream of genai's, of which the frames are taken before genai reads them.
pub(super) struct Tapped {
    stream: ChatStream,
    sink: Arc<Sink>,
    /// What went wrong after frames that are still to be read.
    failure: Option<GenaiError>,
    room: Room,
}

impl Tapped {
    async fn next(&mut self) -> Result<Option<Vec<String>>, GenaiError> {
        poll_fn(|context| {
            loop {
                if let Some(error) = self.failure.take() {
                    return Poll::Ready(Err(error));
                }
                let polled = quietly(|| Pin::new(&mut self.stream).poll_next(context));
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
