//! What is printed when the server is ready: where it is, and what to do next.

use std::net::SocketAddr;

use serde_json::json;

use crate::args::{AccessArgs, ServeArgs};
use crate::failure::Failure;
use crate::output::{BOLD, DIM, Format, Output, styled, visible};

/// Where a server is and what it serves.
#[derive(Debug)]
pub(super) struct Greeting<'a> {
    url: String,
    address: SocketAddr,
    database: &'a str,
    apps: &'a [String],
    /// Whether callers have to log in.
    login: bool,
    /// Where ADK's dev interface is.
    dev_ui: Option<String>,
}

impl<'a> Greeting<'a> {
    pub(super) fn new(address: SocketAddr, database: &'a str, apps: &'a [String], args: &ServeArgs) -> Self {
        let AccessArgs { tokens, jwks, jwt_secret_file, tls_cert, .. } = &args.access;
        let login = tokens.is_some() || jwks.is_some() || jwt_secret_file.is_some();
        let scheme = if tls_cert.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{address}");
        let dev_ui = args.adk_ui.as_ref().map(|_| format!("{url}/dev-ui/"));
        Self { url, address, database, apps, login, dev_ui }
    }

    /// For people what to look at and to try; for programs one line of JSON.
    pub(super) fn print(&self, out: &mut Output) -> Result<(), Failure> {
        let Self { url, address, database, apps, login, dev_ui } = self;
        if out.format() == Format::Json {
            let (host, port) = (address.ip(), address.port());
            let greeting =
                json!({"url": url, "host": host, "port": port, "database": database, "apps": apps, "devUi": dev_ui});
            return Ok(out.json_line(&greeting)?);
        }
        out.line(format_args!("{} serves {}", styled(BOLD, "scratchbook"), visible(database)))?;
        out.line("")?;
        out.text(format_args!("  API            {}", styled(BOLD, url)))?;
        if let Some(dev_ui) = dev_ui {
            out.text(format_args!("  dev interface  {}", styled(BOLD, dev_ui)))?;
        }
        out.text(format_args!("  documentation  {url}/docs"))?;
        out.text(format_args!("  apps           {}", apps.join(", ")))?;
        out.line("")?;
        if let Some(app) = apps.first() {
            out.line(styled(DIM, "Talk to one:"))?;
            out.line("")?;
            let token = if *login { "-H 'Authorization: Bearer TOKEN' " } else { "" };
            let kind = "-H 'Content-Type: application/json'";
            out.text(format_args!("  curl {token}-X POST {url}/apps/{app}/users/me/sessions/first"))?;
            out.text(format_args!("  curl {token}{url}/run_sse {kind} -d '{}'", message(app)))?;
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
