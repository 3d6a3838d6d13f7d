//! A model that has a name only, for agents whose models are not called.

use futures_util::stream;
use scratchbook::Error;
use scratchbook::model::{Llm, LlmRequest, LlmStream};

/// A model whose key is missing. A replay takes its place.
#[derive(Debug)]
pub(super) struct KeylessLlm(pub(super) String);

impl Llm for KeylessLlm {
    fn name(&self) -> &str {
        &self.0
    }

    fn generate(&self, _request: LlmRequest) -> LlmStream {
        let message = format!("the model '{}' has no key, so this server can only replay its answers", self.0);
        Box::pin(stream::iter([Err(Error::precondition(message))]))
    }
}
