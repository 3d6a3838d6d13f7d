//! Models behind HTTP, by name.

use std::sync::Arc;

use scratchbook::{Error, Llm, Result};

/// The model of a name, such as `gemini-2.5-flash` or `ollama::llama3`, with its key from the environment.
///
/// # Errors
///
/// `FailedPrecondition` where its key is not set; `InvalidArgument` for a name that is none.
pub(crate) fn hosted(name: &str) -> Result<Arc<dyn Llm>> {
    Err(Error::not_found(format!("'{name}' is not there yet")))
}
