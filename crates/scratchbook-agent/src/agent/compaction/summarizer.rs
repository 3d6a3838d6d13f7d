//! Turns events into summaries.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use serde::Serialize;
use serde_json::Value;

use crate::model::{Llm, LlmRequest};
use scratchbook_core::content::{Content, Part};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;

/// Summarizes events.
#[async_trait]
pub trait EventsSummarizer: fmt::Debug + Send + Sync + 'static {
    /// Summarizes events, oldest first. Earlier summaries among them are events with the author `model`. `None` means
    /// that there is no summary; the events then stay in the requests.
    ///
    /// # Errors
    ///
    /// Any error. The run continues with the events unchanged.
    async fn summarize_events(&self, events: &[Arc<Event>]) -> Result<Option<EventsSummary>>;
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: EventsSummarizer + ?Sized> EventsSummarizer for Arc<S> {
    async fn summarize_events(&self, events: &[Arc<Event>]) -> Result<Option<EventsSummary>> {
        (**self).summarize_events(events).await
    }
}

/// A summary of events.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct EventsSummary {
    /// The summary, as words of the agent.
    pub content: Content,
    /// The tokens that the summarizer used.
    pub usage_metadata: Option<Value>,
}

impl EventsSummary {
    /// Creates a summary with this content.
    #[must_use]
    pub fn new(content: Content) -> Self {
        Self { content, usage_metadata: None }
    }

    /// Sets the tokens that the summarizer used.
    #[must_use]
    pub fn with_usage_metadata(mut self, usage: Value) -> Self {
        self.usage_metadata = Some(usage);
        self
    }
}

/// Summarizes by asking a model, with ADK's prompt.
///
/// ```
/// use scratchbook::agent::{EventsCompactionConfig, LlmEventsSummarizer};
/// use scratchbook::model::ScriptedLlm;
///
/// let cheap = ScriptedLlm::new(["They spoke of books."]);
/// let summarizer = LlmEventsSummarizer::new(cheap).with_prompt_template("Sum up:\n\n{conversation_history}")?;
/// let config = EventsCompactionConfig::by_invocations(10, 1).with_summarizer(summarizer);
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LlmEventsSummarizer {
    model: Arc<dyn Llm>,
    /// The prompt before the history and after it.
    prompt: (String, String),
}

const PLACEHOLDER: &str = "{conversation_history}";

/// The prompt in ADK's words, for which models have been tuned.
const PROMPT: &str = "The following is a conversation history between a user and an AI agent. It may or may not start \
    from a compacted history. Please identify and reiterate the user request, summarize the context so far, focusing on \
    key decisions made and information obtained, as well as any unresolved questions or tasks. CRITICAL INSTRUCTIONS: \
    1. Explicitly identify and state the primary language used by the user at the top of your summary (e.g., \
    \"Conversation Language: English\"). 2. If the agent called any tools, accurately list the exact tool names used to \
    maintain tool grounding. The rest of the summary should be concise and capture the essence of the \
    interaction.\n\n";

/// How many characters of a call's arguments or of a response are included in the prompt.
const MOST_OF_TOOL: usize = 2000;

/// The name of calls that ask the program's user for credentials. They are not part of the conversation.
const OF_CREDENTIALS: &str = "adk_request_credential";

impl LlmEventsSummarizer {
    /// Summarizes with this model.
    #[must_use]
    pub fn new(model: impl Llm) -> Self {
        Self { model: Arc::new(model), prompt: (PROMPT.to_owned(), String::new()) }
    }

    /// Uses another prompt, in which `{conversation_history}` is replaced by the events.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the prompt has no `{conversation_history}`.
    pub fn with_prompt_template(mut self, template: &str) -> Result<Self> {
        let Some((before, after)) = template.split_once(PLACEHOLDER) else {
            return Err(Error::invalid(format!("the prompt has no place for the events; write {PLACEHOLDER} there")));
        };
        self.prompt = (before.to_owned(), after.to_owned());
        Ok(self)
    }
}

#[async_trait]
impl EventsSummarizer for LlmEventsSummarizer {
    async fn summarize_events(&self, events: &[Arc<Event>]) -> Result<Option<EventsSummary>> {
        let (before, after) = &self.prompt;
        let prompt = format!("{before}{}{after}", history(events));
        let request = LlmRequest {
            model: self.model.name().to_owned(),
            contents: vec![Content::user(prompt)],
            ..LlmRequest::default()
        };
        let mut responses = self.model.generate(request);
        while let Some(response) = responses.next().await {
            let response = response?;
            let whole = response.partial != Some(true);
            if let Some(content) = response.content.filter(|content| whole && !content.text().trim().is_empty()) {
                return Ok(Some(EventsSummary { content, usage_metadata: response.usage_metadata }));
            }
            if let Some(code) = response.error_code {
                let why = response.error_message.unwrap_or_default();
                return Err(Error::internal(format!(
                    "the model '{}' gave no summary: {code} {why}",
                    self.model.name()
                )));
            }
        }
        Ok(None)
    }
}

/// Returns the events as lines, in ADK's form.
fn history(events: &[Arc<Event>]) -> String {
    let mut lines = Vec::new();
    for event in events.iter().filter(|event| !is_of_credentials(event)) {
        let parts = event.content.as_ref().map(Content::parts).unwrap_or_default();
        parts.iter().for_each(|part| add_lines(event, part, &mut lines));
    }
    lines.join("\n")
}

fn add_lines(event: &Event, part: &Part, lines: &mut Vec<String>) {
    let author = &event.author;
    match part.text.as_deref().filter(|text| !text.is_empty()) {
        // Thoughts of an earlier summary are left out.
        Some(_) if part.thought == Some(true) && event.actions.compaction.is_some() => {}
        Some(text) if part.thought == Some(true) => lines.push(format!("{author} (thought): {text}")),
        Some(text) => lines.push(format!("{author}: {text}")),
        None => {}
    }
    if let Some(call) = &part.function_call {
        let name = call.name.as_deref().unwrap_or_default();
        lines.push(format!("{author} called tool: {name}({})", shortened(&call.args)));
    }
    if let Some(response) = &part.function_response {
        let name = response.name.as_deref().unwrap_or_default();
        lines.push(format!("Tool response from {name}: {}", shortened(&response.response)));
    }
}

/// Returns a value as JSON, truncated if it is too long.
fn shortened(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    match text.char_indices().nth(MOST_OF_TOOL) {
        None => text,
        Some((end, _)) => format!("{}... [truncated {} chars]", &text[..end], text[end..].chars().count()),
    }
}

fn is_of_credentials(event: &Event) -> bool {
    let called = event.function_calls().any(|call| call.name.as_deref() == Some(OF_CREDENTIALS));
    called || event.function_responses().any(|response| response.name.as_deref() == Some(OF_CREDENTIALS))
}
