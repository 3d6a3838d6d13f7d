//! The configuration of the answer as genai's options.
//!
//! A setting that a provider does not have is dropped if it only influences the model (`topK`, penalties, `seed`,
//! probabilities, safety settings, labels and the like). A setting without which the answer would be of a different
//! kind is refused.

use genai::chat::{ChatOptions, ChatResponseFormat, JsonSpec, ReasoningEffort, ToolChoice};
use serde_json::{Map, Value, json};

use super::answers::Thoughts;
use super::{ProviderProfile, WireProtocol};
use scratchbook_agent::model::{FunctionDeclaration, GenerateContentConfig, LlmRequest};
use scratchbook_core::error::{Error, ErrorKind, Result};

/// Returns the options of a request.
pub(super) fn options(request: &LlmRequest, profile: &ProviderProfile) -> Result<ChatOptions> {
    let config = &request.config;
    let mut extra = Map::new();
    // The answer is parsed here, so genai does not collect it.
    let mut options = ChatOptions { capture_usage: Some(true), capture_raw_body: Some(true), ..ChatOptions::default() };
    options.max_tokens = config.max_output_tokens;
    options.stop_sequences = config.stop_sequences.clone().unwrap_or_default();
    options.response_format = format(request, profile);
    let thinking = Thinking::of(config)?;
    thinking.apply(profile, &mut options, &mut extra)?;
    // Anthropic's models refuse these settings while they think; ADK has the same rule.
    if !(profile.wire == WireProtocol::Anthropic && thinking.is_wanted()) {
        options.temperature = config.temperature;
        options.top_p = config.top_p;
        if profile.wire == WireProtocol::Anthropic {
            extra.extend(config.top_k.map(|k| ("top_k".to_owned(), whole(k))));
        }
    }
    if profile.wire == WireProtocol::Chat {
        options.seed = config.seed.and_then(|seed| u64::try_from(seed).ok());
        if options.seed.is_none() {
            extra.extend(config.seed.map(|seed| ("seed".to_owned(), seed.into())));
        }
        extra.extend(config.presence_penalty.map(|penalty| ("presence_penalty".to_owned(), penalty.into())));
        extra.extend(config.frequency_penalty.map(|penalty| ("frequency_penalty".to_owned(), penalty.into())));
    }
    if tools(request, profile).next().is_some() {
        options.tool_choice = tool_choice(config);
    }
    options.extra_body = (!extra.is_empty()).then_some(Value::Object(extra));
    Ok(options)
}

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
        let text = format!("models of {} have no {what}", profile.provider());
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

fn format(request: &LlmRequest, profile: &ProviderProfile) -> Option<ChatResponseFormat> {
    let json = request.config.response_mime_type.as_deref() == Some("application/json");
    match &request.output_schema {
        Some(schema) if profile.takes_schema() => {
            Some(ChatResponseFormat::JsonSpec(JsonSpec::new(schema_name(schema), schema.clone())))
        }
        Some(_) => Some(ChatResponseFormat::JsonMode),
        None => json.then_some(ChatResponseFormat::JsonMode),
    }
}

/// Returns a schema's title in a form that OpenAI accepts, or ADK's name for a schema without a title.
fn schema_name(schema: &Value) -> String {
    let title = schema["title"].as_str().filter(|title| !title.is_empty()).unwrap_or("response");
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    title.chars().take(64).map(plain).collect()
}

/// How much the model thinks.
pub(super) struct Thinking {
    pub(super) level: Option<ReasoningEffort>,
    /// The budget in tokens. 0 means no thinking, and a negative number lets the model choose.
    pub(super) budget: Option<i64>,
    include: Option<bool>,
}

impl Thinking {
    pub(super) fn of(config: &GenerateContentConfig) -> Result<Self> {
        let level = thinking_field(config, "thinkingLevel", "thinking_level").and_then(Value::as_str);
        let level = match level.map(str::to_ascii_uppercase).as_deref() {
            None | Some("THINKING_LEVEL_UNSPECIFIED") => None,
            Some("MINIMAL") => Some(ReasoningEffort::Minimal),
            Some("LOW") => Some(ReasoningEffort::Low),
            Some("MEDIUM") => Some(ReasoningEffort::Medium),
            Some("HIGH") => Some(ReasoningEffort::High),
            Some(other) => {
                let other = other.escape_debug();
                return Err(Error::invalid(format!("`thinkingLevel` is MINIMAL, LOW, MEDIUM or HIGH, not '{other}'")));
            }
        };
        let budget = thinking_field(config, "thinkingBudget", "thinking_budget").and_then(Value::as_i64);
        let include = thinking_field(config, "includeThoughts", "include_thoughts").and_then(Value::as_bool);
        Ok(Self { level, budget, include })
    }

    fn is_wanted(&self) -> bool {
        self.level.is_some() || self.budget.is_some_and(|budget| budget != 0)
    }

    fn apply(
        &self,
        profile: &ProviderProfile,
        options: &mut ChatOptions,
        extra: &mut Map<String, Value>,
    ) -> Result<()> {
        // OpenAI and Anthropic return summaries of thoughts only if they are requested.
        let anthropic = profile.wire == WireProtocol::Anthropic;
        options.capture_reasoning_content = Some(self.include == Some(true) || anthropic);
        if self.level.is_some() {
            options.reasoning_effort.clone_from(&self.level);
        } else if anthropic {
            extra.extend(self.for_anthropic()?.map(|thinking| ("thinking".to_owned(), thinking)));
        } else {
            // A budget is translated as ADK's `LiteLlm` does it.
            options.reasoning_effort = match self.budget {
                Some(0) => Some(ReasoningEffort::Zero),
                Some(1..=1024) => Some(ReasoningEffort::Low),
                Some(1025..=2048) => Some(ReasoningEffort::Medium),
                Some(2049..) => Some(ReasoningEffort::High),
                Some(_) | None => profile.keep_name(),
            };
        }
        Ok(())
    }

    /// Returns the setting as ADK's `AnthropicLlm` sends it.
    fn for_anthropic(&self) -> Result<Option<Value>> {
        match self.budget {
            None if self.include == Some(true) => Err(Error::invalid(
                "`thinkingBudget` must be set for models of anthropic: 0 for no thinking, -1 for as much as the model \
                 chooses, or a number of tokens from 1024",
            )),
            None => Ok(None),
            Some(0) => Ok(Some(json!({"type": "disabled"}))),
            Some(..0) => Ok(Some(json!({"type": "adaptive", "display": "summarized"}))),
            Some(budget) => Ok(Some(json!({"type": "enabled", "budget_tokens": budget}))),
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

fn tool_choice(config: &GenerateContentConfig) -> Option<ToolChoice> {
    match mode(config)?.as_str() {
        "ANY" => Some(ToolChoice::Required),
        "NONE" => Some(ToolChoice::None),
        _ => None,
    }
}

/// Returns a number as the integer that providers require.
#[expect(clippy::cast_possible_truncation, reason = "a float beyond all integers becomes the last of them")]
pub(super) fn whole(number: f64) -> Value {
    (number as i64).into()
}
