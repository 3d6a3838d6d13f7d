//! The HTTP client for the collector: reqwest, with our own TLS. It opens a connection for each batch, every few
//! seconds.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::Url;
use reqwest::redirect::Policy;
use rustls::{ClientConfig, RootCertStore};
use scratchbook::Error;
use tokio::runtime::Handle;

/// The timeout of a batch.
const PATIENCE: Duration = Duration::from_secs(10);

/// The client. The SDK calls it from its own thread; requests run on our runtime.
#[derive(Clone, Debug)]
pub(super) struct OtlpClient {
    runtime: Handle,
    http: reqwest::Client,
}

impl OtlpClient {
    pub(super) fn new(endpoint: &str) -> Result<Self, Error> {
        let is_right = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
        if !Url::parse(endpoint).is_ok_and(|url| is_right(&url)) {
            let message = format!("'{endpoint}' is no URL of a collector; give --otlp-endpoint as http://HOST:4318");
            return Err(Error::invalid(message));
        }
        let http = reqwest::Client::builder()
            .timeout(PATIENCE)
            .pool_max_idle_per_host(0)
            // The collector is reached at its URL, without the proxies that the environment names.
            .no_proxy()
            .redirect(Policy::none())
            .tls_backend_preconfigured(tls()?)
            .build()
            .map_err(|e| Error::internal("no HTTP client can be had").with_source(e))?;
        Ok(Self { runtime: Handle::current(), http })
    }
}

#[async_trait]
impl HttpClient for OtlpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let http = self.http.clone();
        self.runtime.spawn(async move { http.send_bytes(request).await }).await?
    }
}

/// Trusts the certificates of the system.
fn tls() -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::internal("no version of TLS can be had").with_source(e))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
