//! The provider of a model, by the model's name, with its endpoint and key.

use std::fmt;

use genai::adapter::AdapterKind;
use reqwest::Url;

use scratchbook_core::error::{Error, ErrorKind, Result};

/// The address of Google's models.
const GEMINI: &str = "https://generativelanguage.googleapis.com";

/// Names that other programs use for providers, in addition to genai's.
const ALIASES: &[(&str, AdapterKind)] = &[
    ("fireworks_ai", AdapterKind::Fireworks),
    ("google", AdapterKind::Gemini),
    ("ollama_chat", AdapterKind::Ollama),
    ("openrouter", AdapterKind::OpenRouter),
    ("together_ai", AdapterKind::Together),
];

/// Providers of genai with protocols of their own that are not tested here.
const UNSUPPORTED: &[AdapterKind] =
    &[AdapterKind::BedrockApi, AdapterKind::Cohere, AdapterKind::GeminiIx, AdapterKind::Vertex];

/// A model and its provider.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProviderModel {
    pub(super) provider: AdapterKind,
    /// The provider's name for the model.
    pub(super) model: String,
}

impl ProviderModel {
    /// Parses `provider::model`, `provider/model`, or the name of a model that only one provider has.
    pub(super) fn parse(name: &str) -> Result<Self> {
        let (provider, model) = Self::split(name)?;
        let provider = match provider {
            Some(provider) => provider,
            None => infer(name)?,
        };
        Self::new(provider, model)
    }

    /// Parses the name of another model of this provider, like [`parse`](Self::parse). A name without a provider
    /// belongs to this provider.
    pub(super) fn sibling(&self, name: &str) -> Result<Self> {
        let (provider, model) = Self::split(name)?;
        match provider {
            Some(other) if other != self.provider => {
                let own = self.provider.as_lower_str();
                Err(Error::invalid(format!("a request for '{name}' came to a model of {own}; name one of {own}")))
            }
            _ => Self::new(self.provider, model),
        }
    }

    fn new(provider: AdapterKind, model: &str) -> Result<Self> {
        if UNSUPPORTED.contains(&provider) || matches!(provider, AdapterKind::Custom(_)) {
            let name = provider.as_lower_str();
            return Err(Error::new(ErrorKind::Unsupported, format!("models of '{name}' are not supported")));
        }
        if model.is_empty() || model.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Error::invalid(format!("'{}' is no model's name", model.escape_debug())));
        }
        Ok(Self { provider, model: model.to_owned() })
    }

    /// Returns the provider in a name, and the rest. A `/` may also be part of a model's name.
    fn split(name: &str) -> Result<(Option<AdapterKind>, &str)> {
        if let Some((provider, model)) = name.split_once("::") {
            let kind = by_name(provider).ok_or_else(|| unknown(provider))?;
            return Ok((Some(kind), model));
        }
        let known = name.split_once('/').and_then(|(provider, model)| Some((Some(by_name(provider)?), model)));
        Ok(known.unwrap_or((None, name)))
    }
}

fn by_name(provider: &str) -> Option<AdapterKind> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == provider).map(|(_, kind)| *kind);
    alias.or_else(|| AdapterKind::from_lower_str(provider))
}

fn unknown(provider: &str) -> Error {
    let known: Vec<_> =
        AdapterKind::all().iter().filter(|kind| !UNSUPPORTED.contains(kind)).map(AdapterKind::as_lower_str).collect();
    Error::invalid(format!("no provider is called '{provider}'; there are {}", known.join(", ")))
}

/// Returns the provider of a model, by its name alone.
fn infer(model: &str) -> Result<AdapterKind> {
    if ["gemini", "gemma-", "models/", "tunedModels/"].iter().any(|start| model.starts_with(start)) {
        return Ok(AdapterKind::Gemini);
    }
    if model.starts_with("projects/") {
        let what = format!("'{model}' is a model of Vertex AI, which is not supported; name one of the Gemini API");
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    match AdapterKind::from_model(model) {
        // Ollama is genai's default for unknown names.
        Ok(AdapterKind::Ollama) | Err(_) => {
            let model = model.escape_debug();
            Err(Error::invalid(format!(
                "nothing says who provides the model '{model}'; put its provider before it, as in 'ollama::llama3'"
            )))
        }
        Ok(provider) => Ok(provider),
    }
}

/// A secret, which never appears in messages and logs.
#[derive(Clone)]
pub(super) struct ApiKey(String);

impl ApiKey {
    /// Returns the given key, or the first of the provider's variables that is set; `None` for providers without keys.
    pub(super) fn find(provider: AdapterKind, given: Option<String>) -> Result<Option<Self>> {
        let variables = key_variables(provider);
        let found = given.or_else(|| variables.iter().find_map(|name| variable(name)));
        match (found, variables.first()) {
            (Some(key), _) => Ok(Some(Self(key))),
            (None, None) => Ok(None),
            (None, Some(_)) => Err(Error::precondition(format!(
                "models of {} need a key; set the environment variable {}",
                provider.as_lower_str(),
                variables.join(" or ")
            ))),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey")
    }
}

fn key_variables(provider: AdapterKind) -> Vec<&'static str> {
    match provider {
        AdapterKind::Gemini => vec!["GOOGLE_API_KEY", "GEMINI_API_KEY"],
        AdapterKind::OpenRouter => vec!["OPENROUTER_API_KEY", "OPEN_ROUTER_API_KEY"],
        other => other.default_key_env_name().into_iter().collect(),
    }
}

/// Reads an environment variable; an empty one counts as missing.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the given address, or the address in the provider's variable; `None` if genai's default is used. The address
/// ends with a `/`, to which the path of a method is appended.
pub(super) fn endpoint(provider: AdapterKind, given: Option<String>) -> Result<Option<Url>> {
    let name = match provider {
        AdapterKind::Gemini => Some("GOOGLE_GEMINI_BASE_URL"),
        AdapterKind::OpenAI | AdapterKind::OpenAIResp => Some("OPENAI_BASE_URL"),
        AdapterKind::Anthropic => Some("ANTHROPIC_BASE_URL"),
        AdapterKind::Ollama => Some("OLLAMA_HOST"),
        _ => None,
    };
    let found = given.or_else(|| name.and_then(variable));
    let text = match (found, provider) {
        (Some(text), _) => text,
        (None, AdapterKind::Gemini) => GEMINI.to_owned(),
        (None, _) => return Ok(None),
    };
    let mut url = parse(provider, &text)?;
    let last = url.path_segments().and_then(|segments| segments.rev().find(|segment| !segment.is_empty()));
    let has_version = last.is_some_and(is_version);
    // Each variable is read as the provider's own programs read it.
    let version = match provider {
        AdapterKind::Gemini if has_version && url.domain().is_some_and(|host| host.ends_with(".googleapis.com")) => "",
        AdapterKind::Gemini => "v1beta",
        AdapterKind::Anthropic if !has_version => "v1",
        _ => "",
    };
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty();
        if !version.is_empty() {
            segments.push(version);
        }
        segments.push("");
    }
    Ok(Some(url))
}

fn parse(provider: AdapterKind, text: &str) -> Result<Url> {
    let mut whole = text.trim().to_owned();
    let bare = !whole.contains("://");
    if provider == AdapterKind::Ollama && bare {
        whole = format!("http://{whole}");
    }
    // The text is not repeated, since an address may contain a password.
    let wrong = || Error::invalid("an endpoint is an address such as 'https://example.com/v1'");
    let mut url = Url::parse(&whole).map_err(|error| wrong().with_source(error))?;
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong());
    }
    if provider == AdapterKind::Ollama && bare && url.port().is_none() {
        url.set_port(Some(11434)).map_err(|()| wrong())?;
    }
    Ok(url)
}

/// Returns whether a segment is a version, such as `v1`, `v1beta` or `v2.1`.
fn is_version(segment: &str) -> bool {
    let mut chars = segment.chars();
    chars.next() == Some('v')
        && chars.next().is_some_and(|c| c.is_ascii_digit())
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-'))
}
