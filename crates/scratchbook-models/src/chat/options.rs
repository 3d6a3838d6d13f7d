//! The configuration of the answer.
//!
//! A setting that a provider does not have is dropped if it only influences the model (`topK`, penalties, `seed`,
//! probabilities, safety settings, labels and the like). A setting without which the answer would be of a different
//! kind is refused.

use serde_json::{Value, json};

use super::answers::Thoughts;
use super::{ProviderProfile, WireProtocol};
use scratchbook_agent::model::{FunctionDeclaration, GenerateContentConfig, LlmRequest};
use scratchbook_core::error::{Error, ErrorKind, Result};

/// Returns the tools that may be called.
pub(super) fn tools<'a>(
    request: &'a LlmRequest,
    profile: &ProviderProfile,
) -> impl Iterator<Item = &'a FunctionDeclaration> + use<'a> {
    let allowed = allowed_names(&request.config);
    // Ollama has no setting for the choice of tools. To forbid tools, none are declared.
    let none = profile.wire == WireProtocol::Ollama && mode(&request.config).as_deref() == Some("NONE");
    request.tools.iter().filter(move |tool| !none && allowed.is_none_or(|names| names.contains(&json!(tool.name))))
}

/// Returns whether thoughts are shown; they are unless the request excludes them.
pub(super) fn thoughts(config: &GenerateContentConfig) -> Thoughts {
    let wanted = thinking_field(config, "includeThoughts", "include_thoughts").and_then(Value::as_bool);
    if wanted == Some(false) { Thoughts::Hidden } else { Thoughts::Shown }
}

/// Refuses settings that the provider does not support.
pub(super) fn refuse(config: &GenerateContentConfig, profile: &ProviderProfile) -> Result<()> {
    let refused = |what: &str| {
        let text = format!("models of {} have no {what}", profile.provider.name());
        Err(Error::new(ErrorKind::Unsupported, text))
    };
    let modalities = config.response_modalities.iter().flatten();
    if modalities.into_iter().any(|modality| !modality.eq_ignore_ascii_case("TEXT")) {
        return refused("`responseModalities` but TEXT");
    }
    if config.cached_content.is_some() {
        return refused("`cachedContent`");
    }
    if profile.wire == WireProtocol::Responses && config.stop_sequences.iter().flatten().next().is_some() {
        return refused("`stopSequences`");
    }
    if profile.wire == WireProtocol::Ollama && mode(config).as_deref() == Some("ANY") {
        return refused("function calling of mode ANY");
    }
    Ok(())
}

/// Returns the schema to which the provider holds the answer.
pub(super) fn answer_schema<'a>(request: &'a LlmRequest, profile: &ProviderProfile) -> Option<&'a Value> {
    request.output_schema.as_ref().filter(|_| profile.takes_schema())
}

/// Returns whether the answer must be JSON.
pub(super) fn is_json(config: &GenerateContentConfig) -> bool {
    config.response_mime_type.as_deref() == Some("application/json")
}

/// Returns a schema's title in a form that OpenAI accepts, or ADK's name for a schema without a title.
pub(super) fn schema_name(schema: &Value) -> String {
    let title = schema["title"].as_str().filter(|title| !title.is_empty()).unwrap_or("response");
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    title.chars().take(64).map(plain).collect()
}

/// How much the model thinks.
pub(super) struct Thinking {
    /// `minimal`, `low`, `medium` or `high`.
    pub(super) level: Option<&'static str>,
    /// The budget in tokens. 0 means no thinking, and a negative number lets the model choose.
    pub(super) budget: Option<i64>,
    pub(super) include: Option<bool>,
}

impl Thinking {
    pub(super) fn of(config: &GenerateContentConfig) -> Result<Self> {
        let level = thinking_field(config, "thinkingLevel", "thinking_level").and_then(Value::as_str);
        let level = match level.map(str::to_ascii_uppercase).as_deref() {
            None | Some("THINKING_LEVEL_UNSPECIFIED") => None,
            Some("MINIMAL") => Some("minimal"),
            Some("LOW") => Some("low"),
            Some("MEDIUM") => Some("medium"),
            Some("HIGH") => Some("high"),
            Some(other) => {
                let other = other.escape_debug();
                return Err(Error::invalid(format!("`thinkingLevel` is MINIMAL, LOW, MEDIUM or HIGH, not '{other}'")));
            }
        };
        let budget = thinking_field(config, "thinkingBudget", "thinking_budget").and_then(Value::as_i64);
        let include = thinking_field(config, "includeThoughts", "include_thoughts").and_then(Value::as_bool);
        Ok(Self { level, budget, include })
    }

    /// Returns OpenAI's level of effort. A budget is translated as ADK's `LiteLlm` does it.
    pub(super) fn effort(&self) -> Option<&'static str> {
        match (self.level, self.budget) {
            (Some(level), _) => Some(level),
            (None, None | Some(..0)) => None,
            (None, Some(0)) => Some("none"),
            (None, Some(1..=1024)) => Some("low"),
            (None, Some(1025..=2048)) => Some("medium"),
            (None, Some(2049..)) => Some("high"),
        }
    }
}

fn thinking_field<'a>(config: &'a GenerateContentConfig, camel: &str, snake: &str) -> Option<&'a Value> {
    let thinking = config.thinking_config.as_ref()?;
    thinking.get(camel).or_else(|| thinking.get(snake)).filter(|value| !value.is_null())
}

fn calling(config: &GenerateContentConfig) -> Option<&Value> {
    let tools = config.tool_config.as_ref()?;
    tools.get("functionCallingConfig").or_else(|| tools.get("function_calling_config"))
}

fn mode(config: &GenerateContentConfig) -> Option<String> {
    calling(config)?.get("mode")?.as_str().map(str::to_ascii_uppercase)
}

/// Returns the list of functions that may be called, if there is one. Gemini supports such a list for the mode ANY.
fn allowed_names(config: &GenerateContentConfig) -> Option<&Vec<Value>> {
    let names = calling(config).filter(|_| mode(config).as_deref() == Some("ANY"))?;
    let names = names.get("allowedFunctionNames").or_else(|| names.get("allowed_function_names"))?.as_array()?;
    (!names.is_empty()).then_some(names)
}

/// Returns `required` or `none` if the model must or must not call a tool.
pub(super) fn tool_choice(config: &GenerateContentConfig) -> Option<&'static str> {
    match mode(config)?.as_str() {
        "ANY" => Some("required"),
        "NONE" => Some("none"),
        _ => None,
    }
}

/// Returns a number as the integer that providers require.
#[expect(clippy::cast_possible_truncation, reason = "a float beyond all integers becomes the last of them")]
pub(super) fn whole(number: f64) -> Value {
    (number as i64).into()
}
