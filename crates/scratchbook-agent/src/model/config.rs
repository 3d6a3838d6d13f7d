//! How a model generates its answer: `GenerateContentConfig`, with the fields of Google's GenAI types.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use scratchbook_core::error::{Error, Result};

/// How a model generates its answer. The model decides about fields that are not set.
///
/// The fields are those of Gemini; for other models they are translated to the provider's options. Names are written in
/// camelCase and read in camelCase or snake_case; unknown names are refused. The instruction, the tools and the
/// answer's schema are not fields here, because they belong to the agent.
///
/// ```
/// use scratchbook::model::GenerateContentConfig;
///
/// let config = GenerateContentConfig { temperature: Some(0.2), max_output_tokens: Some(256), ..Default::default() };
/// assert_eq!(serde_json::to_string(&config).unwrap(), r#"{"temperature":0.2,"maxOutputTokens":256}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GenerateContentConfig {
    /// The temperature of sampling, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Samples from the smallest set of the likeliest tokens whose probabilities add up to this value.
    #[serde(alias = "top_p", skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Samples from this number of the likeliest tokens.
    #[serde(alias = "top_k", skip_serializing_if = "Option::is_none")]
    pub top_k: Option<f64>,
    /// The number of answers; only the first is used.
    #[serde(alias = "candidate_count", skip_serializing_if = "Option::is_none")]
    pub candidate_count: Option<u32>,
    /// The maximum length of the answer, in tokens.
    #[serde(alias = "max_output_tokens", skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// Texts that end the answer.
    #[serde(alias = "stop_sequences", skip_serializing_if = "Option::is_none")]
    pub stop_sequences: Option<Vec<String>>,
    /// Whether the answer comes with probabilities.
    #[serde(alias = "response_logprobs", skip_serializing_if = "Option::is_none")]
    pub response_logprobs: Option<bool>,
    /// How many of the likeliest tokens are returned with their probabilities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<u32>,
    /// Makes tokens that were used already less likely.
    #[serde(alias = "presence_penalty", skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// Makes tokens less likely the more often they were used.
    #[serde(alias = "frequency_penalty", skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// The seed of sampling. The same seed gives the same answer, as far as the model supports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// The MIME type of the answer, such as `application/json`.
    #[serde(alias = "response_mime_type", skip_serializing_if = "Option::is_none")]
    pub response_mime_type: Option<String>,
    /// The kinds of answers, such as `TEXT` and `IMAGE`.
    #[serde(alias = "response_modalities", skip_serializing_if = "Option::is_none")]
    pub response_modalities: Option<Vec<String>>,
    /// The resolution at which media is processed.
    #[serde(alias = "media_resolution", skip_serializing_if = "Option::is_none")]
    pub media_resolution: Option<String>,
    /// The voice of a spoken answer.
    #[serde(alias = "speech_config", skip_serializing_if = "Option::is_none")]
    pub speech_config: Option<Value>,
    /// Whether and how much the model thinks before it answers: `includeThoughts`, `thinkingBudget`, `thinkingLevel`.
    #[serde(alias = "thinking_config", skip_serializing_if = "Option::is_none")]
    pub thinking_config: Option<Value>,
    /// How images are generated.
    #[serde(alias = "image_config", skip_serializing_if = "Option::is_none")]
    pub image_config: Option<Value>,
    /// Which content is blocked.
    #[serde(alias = "safety_settings", skip_serializing_if = "Option::is_none")]
    pub safety_settings: Option<Vec<Value>>,
    /// When tools are called.
    #[serde(alias = "tool_config", skip_serializing_if = "Option::is_none")]
    pub tool_config: Option<Value>,
    /// The name of a context that the provider has cached.
    #[serde(alias = "cached_content", skip_serializing_if = "Option::is_none")]
    pub cached_content: Option<String>,
    /// Labels for billing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

impl GenerateContentConfig {
    /// Refuses numbers that JSON cannot represent.
    pub(crate) fn check(&self) -> Result<()> {
        let numbers = [
            ("temperature", self.temperature),
            ("top_p", self.top_p),
            ("top_k", self.top_k),
            ("presence_penalty", self.presence_penalty),
            ("frequency_penalty", self.frequency_penalty),
        ];
        match numbers
            .iter()
            .find_map(|(name, number)| number.filter(|number| !number.is_finite()).map(|bad| (name, bad)))
        {
            Some((name, bad)) => {
                Err(Error::invalid(format!("'{name}' is {bad}; give a finite number, or leave it out")))
            }
            None => Ok(()),
        }
    }
}
