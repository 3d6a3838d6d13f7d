//! Models by name.

use std::sync::Arc;

use scratchbook::model::{Llm, RemoteLlm};
use scratchbook::{ErrorKind, Result};

use super::demo;

/// Returns the model of a name such as `gemini-2.5-flash` or `ollama::llama3`, with its key from the environment.
///
/// # Errors
///
/// Those of [`RemoteLlm::new`]: `FailedPrecondition` if its key is not set.
pub(crate) fn hosted(name: &str) -> Result<Arc<dyn Llm>> {
    Ok(Arc::new(RemoteLlm::new(name)?))
}

/// As [`hosted`], for a name in an agent's file or after `--model`, which may also be that of a built-in model.
pub(super) fn named(name: &str) -> Result<Arc<dyn Llm>> {
    hosted(name).map_err(|error| match error.kind() {
        ErrorKind::FailedPrecondition | ErrorKind::InvalidArgument | ErrorKind::NotFound => {
            let offline = format!("'{}' and '{}' are models that work offline", demo::ECHO, demo::SHOP);
            scratchbook::Error::new(error.kind(), format!("{error}; {offline}"))
        }
        _ => error,
    })
}
