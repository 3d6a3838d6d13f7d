//! `scratchbook health`: asks a server whether it is ready, for containers and monitoring.

mod tls;

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use scratchbook::{Error, ErrorKind};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::args::{Command, HealthArgs};
use crate::config::{self, ParseFailure};
use crate::context::Context;
use crate::failure::CommandFailure;
use crate::output::{Format, Output, visible};
use crate::serve::reachable_ip;
use tls::Trust;

/// The path at which a server reports whether it is ready.
const READY: &str = "/health/ready";
/// The time limit without `--deadline`. A server gives its database two seconds.
const PATIENCE: Duration = Duration::from_secs(4);
/// How much of the response is read.
const MAX_BYTES: usize = 64 << 10;

/// A server to ask.
struct HealthTarget {
    /// The URL for messages.
    url: String,
    host: String,
    port: u16,
    /// The header `Host`.
    authority: String,
    path: String,
    /// The accepted certificates; `None` without TLS.
    trust: Option<Trust>,
}

/// Succeeds if the server is ready.
///
/// # Errors
///
/// `Unavailable` if it is not ready, or does not answer in time.
pub(crate) async fn health(context: &Context, args: HealthArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let asked = match args.url {
        Some(url) => HealthTarget::of_url(&url, args.ca)?,
        None => HealthTarget::own(args.config)?,
    };
    let patience = context.options.deadline.unwrap_or(PATIENCE);
    let answer = tokio::time::timeout(patience, asked.ask()).await;
    let (status, body) = answer.unwrap_or_else(|_| {
        let message = format!("{} has not answered within {} s", asked.url, patience.as_secs_f64());
        Err(Error::new(ErrorKind::Unavailable, message))
    })?;
    if status != StatusCode::OK {
        let body = String::from_utf8_lossy(&body);
        let message = format!("{} is not ready: {} {}", asked.url, status.as_u16(), visible(body.trim()));
        return Err(Error::new(ErrorKind::Unavailable, message).into());
    }
    if out.format() == Format::Json {
        return Ok(out.json_line(&json!({"status": "ready", "url": asked.url}))?);
    }
    Ok(out.line(format_args!("{} is ready", asked.url))?)
}

impl HealthTarget {
    /// Returns a server by its URL. If the URL has no path, the request goes to [`READY`].
    fn of_url(url: &str, ca: Option<PathBuf>) -> Result<Self, Error> {
        let invalid = || Error::invalid(format!("'{url}' is not the URL of a server, such as http://127.0.0.1:8000"));
        let uri: Uri = url.parse().map_err(|e| invalid().with_source(e))?;
        let (usual, trust) = match uri.scheme_str() {
            Some("http") if ca.is_some() => return Err(Error::invalid("--ca is for https; leave it out here")),
            Some("http") => (80, None),
            Some("https") => (443, Some(Trust::Authorities(ca))),
            _ => return Err(invalid()),
        };
        let authority = uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(invalid)?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            url: url.to_owned(),
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(usual),
            authority: authority.to_string(),
            path: if path == "/" { READY.to_owned() } else { path.to_owned() },
            trust,
        })
    }

    /// Returns the server on this machine that `scratchbook serve` starts with the same environment and file.
    fn own(file: Option<PathBuf>) -> Result<Self, CommandFailure> {
        let file = file.into_iter().flat_map(|file| [OsString::from("--config"), file.into()]);
        let words: Vec<_> = ["scratchbook", "serve"].map(OsString::from).into_iter().chain(file).collect();
        let (cli, _) = config::parse(&words).map_err(|failure| match failure {
            ParseFailure::File(failure) => failure,
            ParseFailure::Usage(error) => {
                let said = error.render().to_string();
                Error::invalid(format!("the settings of the server: {}", said.trim_start_matches("error: "))).into()
            }
        })?;
        let Command::Serve(args) = cli.command else {
            return Err(Error::internal("the settings of a server are those of another command").into());
        };
        if args.port == 0 {
            let message = "the settings name no port: with port 0 the server takes a free one; give its URL";
            return Err(Error::invalid(message).into());
        }
        let host = args.host.parse().map_or(args.host, |ip: IpAddr| reachable_ip(ip).to_string());
        let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let is_encrypted = args.access.tls_cert.is_some();
        let scheme = if is_encrypted { "https" } else { "http" };
        Ok(Self {
            url: format!("{scheme}://{shown}:{}", args.port),
            authority: format!("localhost:{}", args.port),
            host,
            port: args.port,
            path: READY.to_owned(),
            trust: is_encrypted.then_some(Trust::Anybody),
        })
    }

    async fn ask(&self) -> Result<(StatusCode, Bytes), Error> {
        // The file is read first, so that an unreadable file is reported even if the server does not answer.
        let config = self.trust.as_ref().map(tls::config).transpose()?;
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|e| self.failed(e))?;
        match config {
            None => self.ask_by(stream).await,
            Some(config) => {
                let encrypted = tls::connect(config, &self.host, stream)?.await.map_err(|e| self.failed(e))?;
                self.ask_by(encrypted).await
            }
        }
    }

    async fn ask_by(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<(StatusCode, Bytes), Error> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.failed(e))?;
        tokio::spawn(async move {
            // The request reports errors of the connection.
            let _ = connection.await;
        });
        let request = Request::get(&self.path).header(HOST, &self.authority).body(Empty::<Bytes>::new());
        let request = request.map_err(|e| Error::invalid(format!("{} cannot be asked", self.url)).with_source(e))?;
        let response = sender.send_request(request).await.map_err(|e| self.failed(e))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
        let body = body.map_err(|e| Error::new(ErrorKind::Unavailable, format!("{}: {e}", self.url)))?;
        Ok((status, body.to_bytes()))
    }

    fn failed(&self, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::new(ErrorKind::Unavailable, format!("{} does not answer", self.url)).with_source(cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_whom_to_ask() {
        for (url, host, port, authority, path, encrypted) in [
            ("http://127.0.0.1:8000", "127.0.0.1", 8000, "127.0.0.1:8000", READY, false),
            ("http://localhost/", "localhost", 80, "localhost", READY, false),
            ("https://shop.example", "shop.example", 443, "shop.example", READY, true),
            ("https://[::1]:1/health", "::1", 1, "[::1]:1", "/health", true),
        ] {
            let asked = HealthTarget::of_url(url, None).unwrap();
            assert_eq!((asked.host.as_str(), asked.port, asked.authority.as_str()), (host, port, authority), "{url}");
            assert_eq!((asked.path.as_str(), asked.trust.is_some()), (path, encrypted), "{url}");
        }
        for url in ["", "localhost:8000", "/health", "ftp://a", "http://me:secret@a", "http://"] {
            let Err(error) = HealthTarget::of_url(url, None) else { panic!("{url}") };
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url}");
        }
        assert!(HealthTarget::of_url("http://a", Some("ca.crt".into())).is_err());
    }
}
