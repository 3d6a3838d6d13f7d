//! The connection to a model: an HTTP client with our own TLS, and the requests with the provider's key.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Response, Url};
use rustls::crypto::ring;
use rustls::{ClientConfig as TlsConfig, RootCertStore};

use super::body;
use super::provider::{ApiKey, Provider, ProviderModel, endpoint};
use super::retry::{FailedAttempt, RetryPolicy};
use super::secrets::Secrets;
use scratchbook_agent::model::LlmRequest;
use scratchbook_core::error::{Error, Result};

/// The time limit for connecting. It does not include the time that a model needs to think.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Everything that a call of a model needs, apart from the request.
#[derive(Clone)]
pub(super) struct ModelCall {
    http: reqwest::Client,
    pub(super) target: ProviderModel,
    /// The provider's address, which ends with a `/`.
    pub(super) endpoint: Url,
    key: Option<ApiKey>,
    pub(super) secrets: Secrets,
    pub(super) retry_policy: RetryPolicy,
}

/// The options given to a builder.
#[derive(Clone, Default)]
pub(super) struct ClientOptions {
    pub(super) endpoint: Option<String>,
    pub(super) api_key: Option<String>,
    pub(super) timeout: Option<Duration>,
    pub(super) max_retries: Option<usize>,
    pub(super) headers: Vec<(String, String)>,
}

impl ModelCall {
    pub(super) fn new(name: &str, options: ClientOptions) -> Result<Self> {
        let target = ProviderModel::parse(name)?;
        let key = ApiKey::find(target.provider, options.api_key)?;
        if options.endpoint.is_none() {
            super::secrets::warn_of_unread_address(&target);
        }
        let endpoint = endpoint(target.provider, options.endpoint)?;
        let secrets = Secrets::new(key.as_ref(), options.headers.iter().map(|(_, value)| value.as_str()));
        let http = http_client(options.headers)?;
        // These are the timeout and retries of the official clients of OpenAI and Anthropic.
        let timeout = options.timeout.unwrap_or(Duration::from_secs(600));
        let retry_policy = RetryPolicy { timeout, max_retries: options.max_retries.unwrap_or(2) };
        Ok(Self { http, target, endpoint, key, secrets, retry_policy })
    }

    /// Returns the call for a request, which may name another model of the same provider.
    pub(super) fn of(&self, name: &str, request: &LlmRequest) -> Result<Self> {
        let mut call = self.clone();
        if !request.model.is_empty() && request.model != name {
            call.target = self.target.sibling(&request.model)?;
        }
        Ok(call)
    }

    /// Sends a request, and returns the response if its status is a success.
    pub(super) async fn send(&self, url: Url, body: &[u8]) -> Result<Response, FailedAttempt> {
        let mut request = self.http.post(url).header(CONTENT_TYPE, "application/json").body(body.to_vec());
        if self.target.provider == Provider::Anthropic {
            request = request.header("anthropic-version", "2023-06-01");
        }
        if let Some(key) = &self.key {
            let (name, value) = match self.target.provider {
                Provider::Gemini => (HeaderName::from_static("x-goog-api-key"), key.as_str().to_owned()),
                Provider::Anthropic => (HeaderName::from_static("x-api-key"), key.as_str().to_owned()),
                _ => (AUTHORIZATION, format!("Bearer {}", key.as_str())),
            };
            let mut value =
                HeaderValue::from_str(&value).map_err(|_| Error::invalid("the key holds what no HTTP header can"))?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        let response = request.send().await.map_err(|error| self.unreached(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        Err(self.refused(status, &headers, &body::complaint(response).await))
    }

    /// Returns the provider's name, for messages.
    pub(super) fn provider(&self) -> &'static str {
        self.target.provider.name()
    }
}

fn http_client(headers: Vec<(String, String)>) -> Result<reqwest::Client> {
    let mut all = HeaderMap::new();
    for (name, value) in headers {
        let wrong = || Error::invalid(format!("'{}' is no HTTP header, or its value is none", name.escape_debug()));
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        all.insert(key, value);
    }
    reqwest::Client::builder()
        .user_agent(concat!("scratchbook/", env!("CARGO_PKG_VERSION")))
        .default_headers(all)
        .connect_timeout(CONNECT_TIMEOUT)
        // Headers contain keys, which a redirect would send to another host.
        .redirect(Policy::none())
        .tls_backend_preconfigured(tls()?)
        .build()
        .map_err(|error| Error::internal("no HTTP client can be had").with_source(error))
}

/// Returns the configuration of TLS with `ring` and the system's certificate authorities, which are loaded once.
fn tls() -> Result<TlsConfig> {
    static CONFIG: OnceLock<TlsConfig> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    // The provider is explicit: rustls panics if the program has no default provider, or more than one.
    let mut config = TlsConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("no version of TLS can be had").with_source(error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // One request at a time is sent over a connection, so HTTP/2 has no use.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(CONFIG.get_or_init(|| config).clone())
}
