//! Replaces remote models in a program without the feature `models`. Such a program has no remote models.

use std::sync::Arc;

use scratchbook::model::Llm;
use scratchbook::{Error, ErrorKind, Result};

/// Refuses every model.
///
/// # Errors
///
/// Always `Unsupported`.
pub(crate) fn hosted(name: &str) -> Result<Arc<dyn Llm>> {
    let message =
        format!("this scratchbook was built without models such as '{name}'; build it with --features models");
    Err(Error::new(ErrorKind::Unsupported, message))
}
