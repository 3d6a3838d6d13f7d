//! An HTTP client for the collector. It opens a connection for each batch, every few seconds.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::rt::{Read, Write};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient, HttpError};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use scratchbook::Error;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The timeout of a batch.
const PATIENCE: Duration = Duration::from_secs(10);

/// The client. The SDK calls it from its own thread; requests run on our runtime.
#[derive(Clone, Debug)]
pub(super) struct Client {
    runtime: Handle,
    to: Arc<Collector>,
}

#[derive(Debug)]
struct Collector {
    host: String,
    port: u16,
    /// Present for `https`.
    tls: Option<Tls>,
}

struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Client {
    pub(super) fn new(endpoint: &str) -> Result<Self, Error> {
        let wrong = || {
            let message = format!("'{endpoint}' is no URL of a collector; give --otlp-endpoint as http://HOST:4318");
            Error::invalid(message)
        };
        let uri: Uri = endpoint.parse().map_err(|_| wrong())?;
        let host = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']).to_owned();
        let (port, tls) = match uri.scheme_str() {
            Some("http") => (80, None),
            Some("https") => (443, Some(Tls::new(&host).ok_or_else(wrong)?)),
            _ => return Err(wrong()),
        };
        let to = Collector { host, port: uri.port_u16().unwrap_or(port), tls };
        Ok(Self { runtime: Handle::current(), to: Arc::new(to) })
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let to = Arc::clone(&self.to);
        let sending = self.runtime.spawn(async move { timeout(PATIENCE, to.send(request)).await? });
        sending.await?
    }
}

impl Collector {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        match &self.tls {
            None => exchange(TokioIo::new(stream), request).await,
            Some(Tls { connector, name }) => {
                exchange(TokioIo::new(connector.connect(name.clone(), stream).await?), request).await
            }
        }
    }
}

/// Sends a request over a connection and reads the whole response.
async fn exchange<C>(connection: C, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError>
where
    C: Read + Write + Send + Unpin + 'static,
{
    let (mut sender, connection) = http1::handshake(connection).await?;
    let driven = tokio::spawn(connection);
    let (mut parts, body) = request.into_parts();
    if let Some(authority) = parts.uri.authority() {
        parts.headers.insert(HOST, HeaderValue::from_str(authority.as_str())?);
    }
    parts.uri = parts.uri.path_and_query().map_or_else(|| Uri::from_static("/"), |path| Uri::from(path.clone()));
    let (parts, body) = sender.send_request(Request::from_parts(parts, Full::new(body))).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    driven.abort();
    Ok(Response::from_parts(parts, body))
}

impl Tls {
    /// Trusts the certificates of the system.
    fn new(host: &str) -> Option<Self> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().ok()?;
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).ok()?;
        Some(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}
