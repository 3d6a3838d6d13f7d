//! A model with scripted answers, for tests, demos and offline work.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{Stream, stream};

use super::{Llm, LlmRequest, LlmResponse, LlmStream};
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, ErrorKind, Result};

type LlmScript = dyn Fn(&LlmRequest) -> LlmStream + Send + Sync;

/// A model with a script: fixed answers, or a function of the request.
///
/// The model keeps every request, for [`requests`](Self::requests), so its memory grows with each call. A program that
/// runs for a long time should implement [`Llm`] itself.
///
/// If streaming is requested, text arrives word by word before the whole answer, unless the script provides its own
/// stream.
///
/// ```
/// use scratchbook::model::{LlmResponse, ScriptedLlm};
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
    script: Arc<LlmScript>,
    requests: Arc<Mutex<Vec<LlmRequest>>>,
}

impl ScriptedLlm {
    /// Creates a model that gives these answers, one per request. A request after the last answer is an error.
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

    /// Creates a model that computes its answer from the request.
    #[must_use]
    pub fn from_fn(script: impl Fn(&LlmRequest) -> Result<LlmResponse> + Send + Sync + 'static) -> Self {
        Self::from_stream(move |request| stream::iter(word_by_word(script(request), request.stream)))
    }

    /// Creates a model whose answers are streams, with any pieces, pauses and failures.
    ///
    /// ```
    /// use futures_util::stream;
    /// use scratchbook::model::{LlmResponse, ScriptedLlm};
    ///
    /// let halves = ScriptedLlm::from_stream(|request| {
    ///     let pieces = if request.stream { vec!["Hel", "lo."] } else { Vec::new() };
    ///     let pieces = pieces.into_iter().map(LlmResponse::piece);
    ///     stream::iter(pieces.chain([LlmResponse::text("Hello.")]).map(Ok))
    /// });
    /// ```
    #[must_use]
    pub fn from_stream<S>(script: impl Fn(&LlmRequest) -> S + Send + Sync + 'static) -> Self
    where
        S: Stream<Item = Result<LlmResponse>> + Send + 'static,
    {
        Self { script: Arc::new(move |request| Box::pin(script(request))), requests: Arc::default() }
    }

    /// Returns the requests that the model has received so far.
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
        let responses = (self.script)(&request);
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        responses
    }
}

/// Returns the response, preceded by the words of its text if streaming is requested.
fn word_by_word(response: Result<LlmResponse>, stream: bool) -> Vec<Result<LlmResponse>> {
    let Ok(mut whole) = response else {
        return vec![response];
    };
    let text = whole.content.as_ref().filter(|_| stream).map(Content::text).unwrap_or_default();
    let mut responses: Vec<_> = text.split_inclusive(' ').map(|word| Ok(LlmResponse::piece(word))).collect();
    if !responses.is_empty() {
        whole.partial = whole.partial.or(Some(false));
    }
    responses.push(Ok(whole));
    responses
}

impl fmt::Debug for ScriptedLlm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedLlm").finish_non_exhaustive()
    }
}
