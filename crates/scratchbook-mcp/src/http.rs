//! The connection to a server with an address: TLS, headers, and what of the address is shown.

use std::sync::{Arc, OnceLock};

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use crate::client::McpHttpClient;
use crate::inbound::Inbound;
use crate::params::StreamableHttpConnectionParams;
use scratchbook_core::error::{Error, Result};

/// Returns the transport to a server. Nothing is sent yet.
pub(crate) fn transport(
    params: &StreamableHttpConnectionParams,
    inbound: Arc<Inbound>,
) -> Result<StreamableHttpClientTransport<McpHttpClient>> {
    let client = McpHttpClient { http: client(params)?, inbound };
    let config = StreamableHttpClientTransportConfig::with_uri(params.url.as_str());
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

/// Refuses an address that is not HTTP, and headers that are invalid.
pub(crate) fn check(params: &StreamableHttpConnectionParams) -> Result<()> {
    let url = Url::parse(&params.url).map_err(|_| not_an_address())?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(not_an_address());
    }
    headers(params).map(|_| ())
}

/// Returns the part of an address that has no secrets: scheme, host, port and path.
pub(crate) fn shown_address(url: &str) -> String {
    let Ok(mut url) = Url::parse(url) else {
        return "[address]".to_owned();
    };
    url.set_query(None);
    url.set_fragment(None);
    // This fails for an address that cannot have a password.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.into()
}

fn not_an_address() -> Error {
    Error::invalid("the address of an MCP server is invalid; give one such as https://mcp.example/mcp")
}

fn client(params: &StreamableHttpConnectionParams) -> Result<reqwest::Client> {
    reqwest::Client::builder()
        .user_agent(concat!("scratchbook/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers(params)?)
        .connect_timeout(params.timeout)
        // Headers contain keys, which a redirect would send to another host.
        .redirect(Policy::none())
        .tls_backend_preconfigured(tls()?)
        .build()
        .map_err(|error| Error::internal("no HTTP client can be had").with_source(error))
}

fn headers(params: &StreamableHttpConnectionParams) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in &params.headers {
        let wrong = || {
            let name = name.escape_debug();
            Error::invalid(format!(
                "'{name}' is no HTTP header, or its value cannot be sent; give ASCII without controls"
            ))
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Returns the configuration of TLS with `ring` and the system's certificate authorities, which are loaded once.
fn tls() -> Result<ClientConfig> {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    // The provider is explicit: rustls panics if the program has no default provider, or more than one.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("no version of TLS can be had").with_source(error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(CONFIG.get_or_init(|| config).clone())
}
