//! `google_search`: Google Search, which Gemini runs itself.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::Tool;
use crate::agent::{CallbackContext, ToolContext};
use crate::model::{FunctionDeclaration, LlmRequest};
use scratchbook_core::error::{Error, ErrorKind, Result};

/// ADK's tool `google_search`: a Gemini model searches the web before it answers, and the answer's
/// `grounding_metadata` has the sources. The model never calls it as a function.
///
/// ```
/// use scratchbook::agent::{GoogleSearchTool, LlmAgent};
///
/// let agent = LlmAgent::builder("researcher").tool(GoogleSearchTool::new()).build()?;
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[derive(Debug)]
pub struct GoogleSearchTool {
    /// A declaration with only the tool's name. It is not sent to the model.
    declaration: FunctionDeclaration,
}

impl GoogleSearchTool {
    /// Creates the tool.
    #[must_use]
    pub fn new() -> Self {
        let name = "google_search".to_owned();
        Self { declaration: FunctionDeclaration { description: name.clone(), name, ..FunctionDeclaration::default() } }
    }
}

impl Default for GoogleSearchTool {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Tool for GoogleSearchTool {
    fn declaration(&self) -> &FunctionDeclaration {
        &self.declaration
    }

    fn is_long_running(&self) -> bool {
        false
    }

    async fn run(&self, _args: Map<String, Value>, _context: ToolContext) -> Result<Value> {
        Err(Error::new(ErrorKind::Unsupported, "google_search is run by the model's provider and cannot be called"))
    }

    async fn process_llm_request(&self, request: &mut LlmRequest, _context: &CallbackContext) -> Result<()> {
        request.built_in_tools.push(json!({"googleSearch": {}}));
        Ok(())
    }
}
