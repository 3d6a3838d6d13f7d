//! The provider of a model, by the model's name, with its endpoint and key.

use std::fmt;

use reqwest::Url;

use scratchbook_core::error::{Error, ErrorKind, Result};

/// A provider with a protocol of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Provider {
    Gemini,
    OpenAi,
    /// OpenAI with its newer protocol, Responses.
    OpenAiResponses,
    Anthropic,
    Ollama,
    OllamaCloud,
}

/// The providers by name. The first name of each is its own; other programs use the others.
const PROVIDERS: &[(&str, Provider)] = &[
    ("openai", Provider::OpenAi),
    ("openai_resp", Provider::OpenAiResponses),
    ("gemini", Provider::Gemini),
    ("google", Provider::Gemini),
    ("anthropic", Provider::Anthropic),
    ("ollama", Provider::Ollama),
    ("ollama_chat", Provider::Ollama),
    ("ollama_cloud", Provider::OllamaCloud),
];

/// Providers with OpenAI's protocol, each with its names, with how its models' names begin, and with its address.
/// Models of these providers are reached as models of `openai`.
const COMPATIBLE: &[(&[&str], &str, &str)] = &[
    (&["aihubmix"], "", "https://aihubmix.com/v1"),
    (&["aliyun", "dashscope"], "", "https://dashscope.aliyuncs.com/compatible-mode/v1"),
    (&["api_route"], "", "https://global.api-route.com/v1"),
    (&["atlascloud"], "", "https://api.atlascloud.ai/v1"),
    (&["baidu"], "", "https://qianfan.baidubce.com/v2"),
    (&["bigmodel"], "", "https://open.bigmodel.cn/api/paas/v4"),
    (&["cloudgpu"], "", "https://cloudgpu.app/v1"),
    (&["cohere", "cohere_chat"], "command", "https://api.cohere.ai/compatibility/v1"),
    (&["deepseek"], "deepseek-", "https://api.deepseek.com/v1"),
    (&["fireworks", "fireworks_ai"], "", "https://api.fireworks.ai/inference/v1"),
    (&["github_copilot"], "", "https://models.github.ai/inference"),
    (&["groq"], "", "https://api.groq.com/openai/v1"),
    (&["heabsy"], "", "https://api.heabsy.com/v1"),
    (&["kimi"], "kimi-", "https://api.moonshot.ai/v1"),
    (&["mimo"], "mimo-", "https://api.mimo.com/openai/v1"),
    (&["minimax"], "MiniMax-", "https://api.minimax.io/v1"),
    (&["mistral"], "", "https://api.mistral.ai/v1"),
    (&["moonshot"], "moonshot-", "https://api.moonshot.cn/v1"),
    (&["nebius"], "", "https://api.studio.nebius.ai/v1"),
    (&["opencode_go"], "", "https://opencode.ai/zen/go/v1"),
    (&["open_router", "openrouter"], "", "https://openrouter.ai/api/v1"),
    (&["qwen_cloud"], "", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
    (&["requesty"], "", "https://router.requesty.ai/v1"),
    (&["runcrate"], "", "https://api.runcrate.ai/v1"),
    (&["together", "together_ai"], "", "https://api.together.xyz/v1"),
    (&["xai"], "grok", "https://api.x.ai/v1"),
    (&["zai"], "glm", "https://api.z.ai/api/paas/v4"),
];

/// Providers with protocols that are not supported.
const UNSUPPORTED: &[&str] = &["bedrock", "bedrock_api", "gemini_ix", "vertex", "vertex_ai"];

impl Provider {
    pub(super) fn name(self) -> &'static str {
        PROVIDERS.iter().find(|(_, provider)| *provider == self).map_or("", |(name, _)| name)
    }

    pub(super) fn is_openai(self) -> bool {
        matches!(self, Self::OpenAi | Self::OpenAiResponses)
    }

    fn key_variables(self) -> &'static [&'static str] {
        match self {
            Self::Gemini => &["GOOGLE_API_KEY", "GEMINI_API_KEY"],
            Self::OpenAi | Self::OpenAiResponses => &["OPENAI_API_KEY"],
            Self::Anthropic => &["ANTHROPIC_API_KEY"],
            Self::Ollama => &[],
            Self::OllamaCloud => &["OLLAMA_API_KEY"],
        }
    }

    fn endpoint_variable(self) -> Option<&'static str> {
        match self {
            Self::Gemini => Some("GOOGLE_GEMINI_BASE_URL"),
            Self::OpenAi | Self::OpenAiResponses => Some("OPENAI_BASE_URL"),
            Self::Anthropic => Some("ANTHROPIC_BASE_URL"),
            Self::Ollama => Some("OLLAMA_HOST"),
            Self::OllamaCloud => None,
        }
    }

    /// Returns the provider's own address.
    fn address(self) -> &'static str {
        match self {
            Self::Gemini => "https://generativelanguage.googleapis.com",
            Self::OpenAi | Self::OpenAiResponses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
            Self::Ollama => "http://localhost:11434",
            Self::OllamaCloud => "https://ollama.com",
        }
    }

    /// Returns whether an endpoint is the provider itself, and not another server with its protocol.
    pub(super) fn is_at(self, endpoint: &Url) -> bool {
        Url::parse(self.address()).is_ok_and(|own| own.host_str() == endpoint.host_str())
    }
}

/// A model and its provider.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProviderModel {
    pub(super) provider: Provider,
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
                let own = self.provider.name();
                Err(Error::invalid(format!("a request for '{name}' came to a model of {own}; name one of {own}")))
            }
            _ => Self::new(self.provider, model),
        }
    }

    fn new(provider: Provider, model: &str) -> Result<Self> {
        if model.is_empty() || model.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(Error::invalid(format!("'{}' is no model's name", model.escape_debug())));
        }
        Ok(Self { provider, model: model.to_owned() })
    }

    /// Returns the provider in a name, and the rest. A `/` may also be part of a model's name, and so may a `::`, as in
    /// OpenAI's `ft:gpt-4o:org::id`.
    fn split(name: &str) -> Result<(Option<Provider>, &str)> {
        if let Some((provider, model)) = name.split_once("::").filter(|(before, _)| !before.contains([':', '/'])) {
            return match by_name(provider, model) {
                Some(found) => Ok((Some(found?), model)),
                None => {
                    let known: Vec<_> = PROVIDERS.iter().map(|(name, _)| *name).collect();
                    let known = known.join(", ");
                    Err(Error::invalid(format!("no provider is called '{provider}'; there are {known}")))
                }
            };
        }
        let named = name.split_once('/').and_then(|(provider, model)| Some((by_name(provider, model)?, model)));
        match named {
            Some((found, model)) => Ok((Some(found?), model)),
            None => Ok((None, name)),
        }
    }
}

/// Returns the provider with this name; `None` if the name is unknown.
fn by_name(name: &str, model: &str) -> Option<Result<Provider>> {
    if let Some((_, provider)) = PROVIDERS.iter().find(|(known, _)| *known == name) {
        return Some(Ok(*provider));
    }
    if UNSUPPORTED.contains(&name) {
        return Some(Err(Error::new(ErrorKind::Unsupported, format!("models of '{name}' are not supported"))));
    }
    let (_, _, address) = COMPATIBLE.iter().find(|(names, ..)| names.contains(&name))?;
    Some(Err(compatible(name, model, address)))
}

/// Returns the error that tells how a model of a provider with OpenAI's protocol is reached.
fn compatible(provider: &str, model: &str, address: &str) -> Error {
    let model = model.escape_debug();
    let text = format!(
        "models of '{provider}' are reached by OpenAI's protocol: name the model 'openai::{model}', set OPENAI_BASE_URL to \
         the base_url of '{provider}', {address}, and OPENAI_API_KEY to its key"
    );
    Error::new(ErrorKind::Unsupported, text)
}

/// Returns the provider of a model, by its name alone.
fn infer(model: &str) -> Result<Provider> {
    // The model that was fine-tuned.
    let base = model.strip_prefix("ft:").map_or(model, |tuned| tuned.split(':').next().unwrap_or_default());
    let is_one = |beginnings: &[&str]| beginnings.iter().any(|beginning| base.starts_with(beginning));
    if is_one(&["gemini", "gemma-", "models/", "tunedModels/"]) {
        return Ok(Provider::Gemini);
    }
    if is_one(&["claude"]) {
        return Ok(Provider::Anthropic);
    }
    if is_one(&["gpt", "o1", "o3", "o4", "chatgpt", "codex"]) && !is_one(&["gpt-oss"]) {
        let version = base.strip_prefix("gpt-").and_then(|rest| rest.split('-').next()?.parse::<f64>().ok());
        let is_new = version.is_some_and(|version| version >= 5.0);
        let is_responses = is_new || (is_one(&["gpt-"]) && (base.contains("codex") || base.contains("-pro")));
        return Ok(if is_responses { Provider::OpenAiResponses } else { Provider::OpenAi });
    }
    if model.starts_with("projects/") {
        let what = format!("'{model}' is a model of Vertex AI, which is not supported; name one of the Gemini API");
        return Err(Error::new(ErrorKind::Unsupported, what));
    }
    let of = COMPATIBLE.iter().find(|(_, beginning, _)| !beginning.is_empty() && base.starts_with(beginning));
    match of {
        Some((names, _, address)) => Err(compatible(names[0], model, address)),
        None => Err(Error::invalid(format!(
            "nothing says who provides the model '{}'; put its provider before it, as in 'ollama::llama3'",
            model.escape_debug()
        ))),
    }
}

/// A secret, which never appears in messages and logs.
#[derive(Clone)]
pub(super) struct ApiKey(String);

impl ApiKey {
    /// Returns the given key, or the first of the provider's variables that is set; `None` for providers without keys.
    pub(super) fn find(provider: Provider, given: Option<String>) -> Result<Option<Self>> {
        let variables = provider.key_variables();
        match given.or_else(|| variables.iter().find_map(|name| variable(name))) {
            Some(key) => Ok(Some(Self(key))),
            None if variables.is_empty() => Ok(None),
            None => Err(Error::precondition(format!(
                "models of {} need a key; set the environment variable {}",
                provider.name(),
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

/// Reads an environment variable; an empty one counts as missing.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns the given address, the address in the provider's variable, or the provider's own. The address ends with a
/// `/`, to which the path of a method is appended.
pub(super) fn endpoint(provider: Provider, given: Option<String>) -> Result<Url> {
    let found = given.or_else(|| provider.endpoint_variable().and_then(variable));
    let mut url = parse(provider, found.as_deref().unwrap_or(provider.address()))?;
    let last = url.path_segments().and_then(|segments| segments.rev().find(|segment| !segment.is_empty()));
    let has_version = last.is_some_and(is_version);
    // Each variable is read as the provider's own programs read it.
    let version = match provider {
        Provider::Gemini if has_version && url.domain().is_some_and(|host| host.ends_with(".googleapis.com")) => "",
        Provider::Gemini => "v1beta",
        Provider::Anthropic if !has_version => "v1",
        _ => "",
    };
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty();
        if !version.is_empty() {
            segments.push(version);
        }
        segments.push("");
    }
    Ok(url)
}

fn parse(provider: Provider, text: &str) -> Result<Url> {
    let mut whole = text.trim().to_owned();
    let bare = !whole.contains("://");
    if provider == Provider::Ollama && bare {
        whole = format!("http://{whole}");
    }
    // The text is not repeated, since an address may contain a password.
    let wrong = || Error::invalid("an endpoint is an address such as 'https://example.com/v1'");
    let mut url = Url::parse(&whole).map_err(|error| wrong().with_source(error))?;
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong());
    }
    if provider == Provider::Ollama && bare && url.port().is_none() {
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
