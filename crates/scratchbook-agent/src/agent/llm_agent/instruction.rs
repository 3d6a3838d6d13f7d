//! Instructions for a model.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::agent::ReadonlyContext;
use crate::instruction::InstructionTemplate;
use scratchbook_core::error::Result;

/// A function that writes an agent's instruction for each model call. Its text is sent without filling in placeholders.
pub type InstructionProvider = Arc<dyn Fn(ReadonlyContext) -> BoxFuture<'static, Result<String>> + Send + Sync>;

/// An instruction for a model.
#[derive(Clone)]
#[non_exhaustive]
pub enum Instruction {
    /// A template, filled from the state.
    Template(InstructionTemplate),
    /// A function, whose text is sent without filling in placeholders.
    Provider(InstructionProvider),
}

impl Instruction {
    /// Creates an instruction from an async function. The function can fill in values with [`inject_session_state`].
    #[must_use]
    pub fn provider<F, Fut>(function: F) -> Self
    where
        F: Fn(ReadonlyContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<String>> + Send + 'static,
    {
        Self::Provider(Arc::new(move |context| Box::pin(function(context))))
    }

    /// Returns the template's text before values are filled in; `None` for a function.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        match self {
            Self::Template(template) => Some(template.source()),
            Self::Provider(_) => None,
        }
    }

    /// Writes the instruction's text for a model call.
    pub(in crate::agent) async fn render(&self, context: ReadonlyContext) -> Result<String> {
        self.render_as("instruction", context).await
    }

    /// Does the same as `render`, but error messages use the name `what` for the instruction.
    pub(in crate::agent) async fn render_as(&self, what: &str, context: ReadonlyContext) -> Result<String> {
        match self {
            Self::Template(template) => render(what, template, &context).await,
            Self::Provider(function) => function(context).await,
        }
    }
}

impl From<&str> for Instruction {
    fn from(text: &str) -> Self {
        Self::Template(InstructionTemplate::parse(text))
    }
}

impl From<String> for Instruction {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<InstructionTemplate> for Instruction {
    fn from(template: InstructionTemplate) -> Self {
        Self::Template(template)
    }
}

impl fmt::Debug for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(template) => f.debug_tuple("Template").field(template).finish(),
            Self::Provider(_) => f.write_str("Provider"),
        }
    }
}

/// Fills a template from the state, for use in an [`InstructionProvider`].
///
/// ```
/// use scratchbook::agent::{Instruction, inject_session_state};
///
/// let instruction = Instruction::provider(|context| async move {
///     inject_session_state("This is a {adjective} instruction with {{literal_braces}}.", &context).await
/// });
/// ```
///
/// # Errors
///
/// `NotFound` names a missing key or artifact; `FailedPrecondition` if the template uses an artifact and the runner has
/// no artifact service; `PermissionDenied` names a key that is [marked as
/// secret](scratchbook_core::session::SecretKeys), unless the run [allows
/// it](crate::runner::RunConfig::with_secrets_in_templates).
pub async fn inject_session_state(template: &str, context: &ReadonlyContext) -> Result<String> {
    render("instruction", &InstructionTemplate::parse(template), context).await
}

async fn render(what: &str, template: &InstructionTemplate, context: &ReadonlyContext) -> Result<String> {
    let allowed = context.check_template(template);
    let artifacts = context.artifact_texts(template.artifact_names()).await?;
    let state = context.state();
    let text = allowed.and_then(|()| template.render_with(|key| state.get(key).cloned(), artifacts.as_ref()));
    text.map_err(|e| e.context(format!("the {what} of agent '{}'", context.agent_name())))
}
