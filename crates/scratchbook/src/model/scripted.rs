//! A model that says what it is told to say: for tests, demos and work offline.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream;

use super::{Llm, LlmRequest, LlmResponse, LlmStream};
use crate::content::{Content, Part};
use crate::error::{Error, ErrorKind, Result};

type Script = dyn Fn(&LlmRequest) -> Result<LlmResponse> + Send + Sync;

/// A model with a script: written turns, or a function of the request.
///
/// Where a stream is wanted, text comes word by word before the whole.
///
/// ```
/// use scratchbook::{LlmResponse, ScriptedLlm};
/// use serde_json::json;
///
/// let turns = ScriptedLlm::new([LlmResponse::call("add_to_cart", json!({"item": "book"})), "Done.".into()]);
/// let echo = ScriptedLlm::from_fn(|request| {
///     let said = request.contents.last().map(|content| content.text()).unwrap_or_default();
///     Ok(LlmResponse::text(format!("You said: {said}")))
/// });
/// ```
#[derive(Clone)]
pub struct ScriptedLlm {
    script: Arc<Script>,
    requests: Arc<Mutex<Vec<LlmRequest>>>,
}

impl ScriptedLlm {
    /// A model that answers with these turns, one a request. A request beyond the last is an error.
    #[must_use]
    pub fn new<R: Into<LlmResponse>>(turns: impl IntoIterator<Item = R>) -> Self {
        let turns: VecDeque<_> = turns.into_iter().map(Into::into).collect();
        let count = turns.len();
        let turns = Mutex::new(turns);
        Self::from_fn(move |_| {
            let next = turns.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            next.ok_or_else(|| {
                Error::new(ErrorKind::FailedPrecondition, format!("the script's {count} turns are all said"))
            })
        })
    }

    /// A model that answers as a function of the request.
    #[must_use]
    pub fn from_fn(script: impl Fn(&LlmRequest) -> Result<LlmResponse> + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), requests: Arc::default() }
    }

    /// What the model was asked so far.
    #[must_use]
    pub fn requests(&self) -> Vec<LlmRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Llm for ScriptedLlm {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn generate(&self, request: LlmRequest) -> LlmStream {
        let response = (self.script)(&request);
        let mut out = Vec::new();
        if let (true, Ok(response)) = (request.stream, &response) {
            out.extend(pieces(response).map(Ok));
        }
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        out.push(response);
        Box::pin(stream::iter(out))
    }
}

/// The words of a response of text, each a partial response.
fn pieces(response: &LlmResponse) -> impl Iterator<Item = LlmResponse> {
    let text = response.content.as_ref().map(Content::text).unwrap_or_default();
    let words: Vec<_> = text.split_inclusive(' ').map(str::to_owned).collect();
    words.into_iter().map(|word| LlmResponse {
        content: Some(Content::new("model", vec![Part::text(word)])),
        partial: Some(true),
        ..LlmResponse::default()
    })
}

impl fmt::Debug for ScriptedLlm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedLlm").finish_non_exhaustive()
    }
}
