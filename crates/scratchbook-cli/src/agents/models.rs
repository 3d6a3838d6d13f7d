//! Remote models by name.

use std::sync::Arc;

use scratchbook::Result;
use scratchbook::model::{Llm, RemoteLlm};

/// Returns the model with a name such as `gemini-2.5-flash` or `ollama::llama3`. Reads its key from the environment.
///
/// # Errors
///
/// The errors of [`RemoteLlm::new`]: `FailedPrecondition` if its key is not set.
pub(crate) fn hosted(name: &str) -> Result<Arc<dyn Llm>> {
    Ok(Arc::new(RemoteLlm::new(name)?))
}
