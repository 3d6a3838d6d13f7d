//! What is printed when the server is ready: where it is, and what to do next.

use std::net::SocketAddr;
use std::path::Path;

use scratchbook::{Error, ErrorKind};
use serde_json::json;
use tokio::net::TcpListener;

use crate::failure::Failure;
use crate::output::{BOLD, DIM, Format, Output, styled, visible};

/// Where a server is and what it serves.
#[derive(Debug)]
pub(super) struct Greeting<'a> {
    address: SocketAddr,
    database: &'a str,
    apps: &'a [&'a str],
    dev_ui: Option<&'a Path>,
}

impl<'a> Greeting<'a> {
    pub(super) fn new(listener: &TcpListener, database: &'a str, apps: &'a [&'a str]) -> Result<Self, Error> {
        let address = listener
            .local_addr()
            .map_err(|e| Error::new(ErrorKind::Unavailable, "the listener has no address").with_source(e))?;
        Ok(Self { address, database, apps, dev_ui: None })
    }

    /// With the folder that the dev interface is served from.
    pub(super) fn with_dev_ui(mut self, folder: Option<&'a Path>) -> Self {
        self.dev_ui = folder;
        self
    }

    /// For people what to look at and to try; for programs one line of JSON.
    pub(super) fn print(&self, out: &mut Output) -> Result<(), Failure> {
        let Self { address, database, apps, dev_ui } = self;
        let url = format!("http://{address}");
        let interface = dev_ui.map(|_| format!("{url}/dev-ui/"));
        if out.format() == Format::Json {
            let (host, port) = (address.ip(), address.port());
            let greeting =
                json!({"url": url, "host": host, "port": port, "database": database, "apps": apps, "devUi": interface});
            return Ok(out.json_line(&greeting)?);
        }
        out.line(format_args!("{} serves {}", styled(BOLD, "scratchbook"), visible(database)))?;
        out.line("")?;
        out.text(format_args!("  API            {}", styled(BOLD, &url)))?;
        if let Some(interface) = &interface {
            out.text(format_args!("  dev interface  {}", styled(BOLD, interface)))?;
        }
        out.text(format_args!("  documentation  {url}/docs"))?;
        out.text(format_args!("  apps           {}", apps.join(", ")))?;
        out.line("")?;
        if let Some(app) = apps.first() {
            out.line(styled(DIM, "Talk to one:"))?;
            out.line("")?;
            out.text(format_args!("  curl -X POST {url}/apps/{app}/users/me/sessions/first"))?;
            out.text(format_args!("  curl {url}/run_sse -H 'Content-Type: application/json' -d '{}'", message(app)))?;
            out.line("")?;
        }
        Ok(out.line(styled(DIM, "Ctrl-C ends it."))?)
    }
}

/// A first message to an app.
fn message(app: &str) -> String {
    let content = json!({"role": "user", "parts": [{"text": "Add two apples, please"}]});
    json!({"appName": app, "userId": "me", "sessionId": "first", "newMessage": content}).to_string()
}
