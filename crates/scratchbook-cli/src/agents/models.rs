//! Models behind HTTP, by name.

use std::sync::Arc;

use scratchbook::{Llm, RemoteLlm, Result};

/// The model of a name, such as `gemini-2.5-flash` or `ollama::llama3`, with its key from the environment.
///
/// # Errors
///
/// As [`RemoteLlm::new`]: `FailedPrecondition` where its key is not set.
pub(crate) fn hosted(name: &str) -> Result<Arc<dyn Llm>> {
    Ok(Arc::new(RemoteLlm::new(name)?))
}
