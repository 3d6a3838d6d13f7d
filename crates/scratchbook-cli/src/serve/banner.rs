//! The text that is printed when the server is ready: its URL, and how to call it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use scratchbook::Error;
use scratchbook_server::Surface;
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::options;
use crate::args::ServeArgs;
use crate::failure::CommandFailure;
use crate::output::{BOLD, DIM, Format, Output, styled, visible};

/// How long the server waits until the text is printed.
const PATIENCE: Duration = Duration::from_secs(1);

/// The address of a server and what it serves.
#[derive(Debug)]
pub(super) struct Banner {
    url: String,
    address: SocketAddr,
    database: String,
    apps: Vec<String>,
    /// Whether callers have to log in.
    login: bool,
    /// The file with the token that the server made for itself.
    token_file: Option<PathBuf>,
    /// The URL of the inspector.
    inspector: Option<String>,
    /// The URL of ADK's dev interface.
    dev_ui: Option<String>,
    /// The URL of the page that the caller wants to be shown.
    page: Option<String>,
    surfaces: Vec<Surface>,
}

impl Banner {
    pub(super) fn new(
        address: SocketAddr,
        database: String,
        apps: Vec<String>,
        token_file: Option<PathBuf>,
        args: &ServeArgs,
    ) -> Self {
        let scheme = if args.access.tls_cert.is_some() { "https" } else { "http" };
        let prefix = args.access.url_prefix.as_deref().unwrap_or_default();
        let url = format!("{scheme}://{}{prefix}", reachable(address));
        let dev_ui = args.adk_ui.as_ref().map(|_| format!("{url}/dev-ui/"));
        let inspector = (!args.no_inspector).then(|| format!("{url}/inspector"));
        let page = inspector.as_ref().zip(args.show.as_ref()).map(|(inspector, page)| format!("{inspector}/{page}"));
        let login = args.access.has_login();
        let surfaces = options::surfaces(args);
        Self { url, address, database, apps, login, token_file, inspector, dev_ui, page, surfaces }
    }

    /// Prints the banner, without waiting for long if nobody reads standard output.
    ///
    /// # Errors
    ///
    /// The error of writing to standard output.
    pub(super) async fn print(self, format: Format) -> Result<(), CommandFailure> {
        let printing = spawn_blocking(move || self.print_to(&mut Output::new(format == Format::Json)));
        let Ok(printed) = timeout(PATIENCE, printing).await else {
            tracing::warn!("nobody reads standard output: the server starts without printing its URL");
            return Ok(());
        };
        printed.map_err(|e| Error::internal("the greeting was not printed").with_source(e))?
    }

    /// Prints text for people, or one line of JSON for programs.
    fn print_to(&self, out: &mut Output) -> Result<(), CommandFailure> {
        let Self { url, address, database, apps, login, token_file, inspector, dev_ui, page, surfaces } = self;
        let has = |surface| surfaces.contains(&surface);
        let named: Vec<_> = surfaces.iter().filter_map(name).collect();
        if out.format() == Format::Json {
            let (host, port) = (address.ip(), address.port());
            let greeting = json!({
                "url": url, "host": host, "port": port, "database": database, "apps": apps, "devUi": dev_ui,
                "tokenFile": token_file,
                "inspector": inspector,
                "surfaces": named.iter().map(|(word, _)| word).collect::<Vec<_>>(),
            });
            return Ok(out.json_line(&greeting)?);
        }
        out.line(format_args!("{} serves {}", styled(BOLD, "scratchbook"), visible(database)))?;
        out.line("")?;
        let elsewhere = if address.ip().is_unspecified() { ", and at all other addresses of this machine" } else { "" };
        out.text(format_args!("  API            {}{elsewhere}", styled(BOLD, url)))?;
        if let Some(inspector) = inspector {
            out.text(format_args!("  inspector      {}", styled(BOLD, inspector)))?;
        }
        if let Some(dev_ui) = dev_ui {
            out.text(format_args!("  dev interface  {}", styled(BOLD, dev_ui)))?;
        }
        let described: Vec<_> = named.iter().map(|(_, what)| *what).collect();
        out.text(format_args!("  serves         {}", described.join(", ")))?;
        if has(Surface::V1) {
            out.text(format_args!("  documentation  {url}/docs"))?;
        }
        let hosted = if apps.is_empty() { "none: only sessions and state".to_owned() } else { apps.join(", ") };
        out.text(format_args!("  apps           {hosted}"))?;
        out.line("")?;
        let (user, token) = if *login { ("USER", "-H \"Authorization: Bearer $TOKEN\" ") } else { ("me", "") };
        if *login && has(Surface::Adk) {
            out.line(styled(DIM, "Every request needs a token, as in:"))?;
            out.line("")?;
            if let Some(file) = token_file {
                out.text(format_args!("  TOKEN=$(cat {})", file.display()))?;
            }
            out.text(format_args!("  curl {token}{url}/list-apps"))?;
            out.line("")?;
        }
        if let Some(app) = apps.first().filter(|_| has(Surface::Adk)) {
            let of_user = if *login { ", as a USER that the token is for" } else { "" };
            out.line(styled(DIM, format_args!("Talk to one{of_user}:")))?;
            out.line("")?;
            let kind = "-H 'Content-Type: application/json'";
            out.text(format_args!("  curl {token}-X POST {url}/apps/{app}/users/{user}/sessions/first"))?;
            out.text(format_args!("  curl {token}{url}/run_sse {kind} -d '{}'", message(app, user)))?;
            out.line("")?;
        }
        if let Some(page) = page {
            out.line(styled(DIM, "See a conversation, event by event:"))?;
            out.line("")?;
            out.text(format_args!("  {}", styled(BOLD, page)))?;
            out.line("")?;
        }
        Ok(out.line(styled(DIM, "Ctrl-C ends it."))?)
    }
}

/// Returns a surface's name in JSON and in text.
fn name(surface: &Surface) -> Option<(&'static str, &'static str)> {
    match surface {
        Surface::Adk => Some(("adk", "ADK's API")),
        Surface::V1 => Some(("v1", "/v1")),
        Surface::Vertex => Some(("vertex", "Agent Engine Sessions of Vertex AI")),
        _ => None,
    }
}

/// Returns the address at which this machine reaches the server. An unspecified address becomes the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(reachable_ip(address.ip()), address.port())
}

/// Does the same as [`reachable`] for an address without a port.
pub(crate) fn reachable_ip(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// Returns the body of a request with a first message to an app.
fn message(app: &str, user: &str) -> String {
    let content = json!({"role": "user", "parts": [{"text": "Add two apples, please"}]});
    json!({"appName": app, "userId": user, "sessionId": "first", "newMessage": content}).to_string()
}
