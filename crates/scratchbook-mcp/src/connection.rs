//! The connection to a server: opened when it is needed, shared by all calls, and opened again after it broke.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams,
    Tool,
};
use rmcp::service::{RoleClient, RunningService, ServiceError, serve_client};
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::http;
use crate::limits::McpLimits;
use crate::lines::BoundedLines;
use crate::params::McpConnectionParams;
use crate::process::McpProcess;
use crate::secrets::ConnectionSecrets;
use scratchbook_core::error::{Error, ErrorKind, Result};

/// The maximum bytes of a server's message that an error repeats.
const SHOWN: usize = 1000;

/// Returns the size of a tool's description as JSON text.
pub(crate) fn bytes_of(tool: &Tool) -> usize {
    serde_json::to_vec(tool).map_or(usize::MAX, |written| written.len())
}

/// A server and the session with it.
pub(crate) struct McpConnection {
    pub(crate) params: McpConnectionParams,
    pub(crate) limits: McpLimits,
    secrets: ConnectionSecrets,
    session: Mutex<Option<Arc<McpSession>>>,
    /// How long a list of tools is reused.
    list_ttl: Option<Duration>,
    listed: Mutex<Option<(Instant, Vec<Tool>)>>,
}

/// An open session.
struct McpSession {
    service: RunningService<RoleClient, ClientConfig>,
    process: Mutex<Option<McpProcess>>,
    /// Whether the server has sent a message that is too long, which ends the session.
    is_exceeded: Arc<AtomicBool>,
}

impl McpConnection {
    pub(crate) fn new(params: McpConnectionParams, limits: McpLimits, list_ttl: Option<Duration>) -> Self {
        let secrets = ConnectionSecrets::of(&params);
        Self { params, limits, secrets, session: Mutex::new(None), list_ttl, listed: Mutex::new(None) }
    }

    /// Returns all tools of the server, from a new list or from a list that can still be reused.
    pub(crate) async fn list_tools(&self) -> Result<Vec<Tool>> {
        let Some(ttl) = self.list_ttl else { return self.list().await };
        if let Some((listed_at, tools)) = &*self.listed.lock().await
            && listed_at.elapsed() < ttl
        {
            return Ok(tools.clone());
        }
        let tools = self.list().await?;
        *self.listed.lock().await = Some((Instant::now(), tools.clone()));
        Ok(tools)
    }

    /// Asks the server for its tools. If this fails, it is tried again once, on a new session.
    async fn list(&self) -> Result<Vec<Tool>> {
        match self.list_once().await {
            Err(error) if error.is_retryable() => {
                // The server may have been restarted. It then does not know the session and gives no answer.
                self.list_once().await
            }
            listed => listed,
        }
    }

    /// Calls a tool. Opening a session may be tried twice. The call is made only once, because the server may have
    /// carried it out.
    pub(crate) async fn call_tool(&self, name: &str, args: Map<String, Value>) -> Result<CallToolResult> {
        let session = match self.session().await {
            Err(error) if error.is_retryable() => self.session().await?,
            session => session?,
        };
        let params = CallToolRequestParams::new(name.to_owned()).with_arguments(args);
        let call = session.service.peer().call_tool(params);
        self.answered(&session, self.params.read_timeout(), call).await.map_err(Error::not_retryable)
    }

    /// Ends the session. A later call opens a new one.
    pub(crate) async fn close(&self) {
        *self.listed.lock().await = None;
        let session = self.session.lock().await.take();
        if let Some(session) = session {
            session.service.cancellation_token().cancel();
            let process = session.process.lock().await.take();
            if let Some(process) = process {
                process.end().await;
            } else if let Some(mut session) = Arc::into_inner(session) {
                // The end of the session is reported to the server.
                let _ = session.service.close_with_timeout(self.params.timeout()).await;
            }
        }
    }

    async fn list_once(&self) -> Result<Vec<Tool>> {
        let session = self.session().await?;
        let most = self.limits.tools.saturating_mul(self.limits.tool_bytes).max(self.limits.message_bytes);
        let listing = async {
            let (mut tools, mut bytes) = (Vec::new(), 0_usize);
            let mut cursor = None;
            // Each page except the last one has a tool, so the limit also bounds the number of pages.
            loop {
                let page = PaginatedRequestParams::default().with_cursor(cursor);
                let page = session.service.peer().list_tools(Some(page)).await?;
                let is_empty = page.tools.is_empty();
                bytes = page.tools.iter().map(bytes_of).fold(bytes, usize::saturating_add);
                tools.extend(page.tools);
                cursor = page.next_cursor;
                if cursor.is_none() || is_empty || tools.len() > self.limits.tools || bytes > most {
                    return Ok::<_, ServiceError>((tools, bytes));
                }
            }
        };
        let (tools, bytes) = self.answered(&session, self.params.timeout(), listing).await?;
        if tools.len() > self.limits.tools {
            let message = format!("{} lists more than {} tools, McpLimits::tools", self.name(), self.limits.tools);
            return Err(Error::new(ErrorKind::ResourceExhausted, message).not_retryable());
        }
        if bytes > most {
            let message = format!("{} lists tools of more than {most} bytes together", self.name());
            return Err(Error::new(ErrorKind::ResourceExhausted, message).not_retryable());
        }
        Ok(tools)
    }

    /// Returns the session. Opens it first if it is not open. The time limit includes the wait for another run that
    /// opens it.
    async fn session(&self) -> Result<Arc<McpSession>> {
        let time = self.params.timeout();
        let opening = async {
            let mut current = self.session.lock().await;
            if let Some(session) = current.as_ref().filter(|session| session.is_open()) {
                return Ok::<_, Error>(Arc::clone(session));
            }
            *current = None;
            Ok(Arc::clone(current.insert(Arc::new(self.open().await?))))
        };
        timeout(time, opening).await.unwrap_or_else(|_| Err(self.late("to connect", time)))
    }

    async fn open(&self) -> Result<McpSession> {
        let is_exceeded = Arc::new(AtomicBool::new(false));
        let client = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("scratchbook", env!("CARGO_PKG_VERSION")),
        );
        let (served, process) = match &self.params {
            McpConnectionParams::Stdio(params) => {
                let (process, output, input) = McpProcess::start(params)?;
                let output = BoundedLines::new(output, self.limits.message_bytes, Arc::clone(&is_exceeded));
                let transport = AsyncRwTransport::new_client(output, input);
                (serve_client(client, transport).await, Some(process))
            }
            McpConnectionParams::StreamableHttp(params) => {
                (serve_client(client, http::transport(params, self.limits)?).await, None)
            }
        };
        let service = served.map_err(|error| match is_exceeded.load(Ordering::Relaxed) {
            true => self.too_long(),
            false => self.unavailable(&format!("cannot be connected to: {}", self.shown(&error))),
        })?;
        Ok(McpSession { service, process: Mutex::new(process), is_exceeded })
    }

    /// Awaits a request up to a time limit. If the session is broken, or the server does not answer in time, the session
    /// is dropped, and the next call opens another.
    async fn answered<T>(
        &self,
        session: &Arc<McpSession>,
        time: Duration,
        request: impl Future<Output = std::result::Result<T, ServiceError>>,
    ) -> Result<T> {
        let error = match timeout(time, request).await {
            Ok(Ok(answer)) => return Ok(answer),
            Err(_) => {
                self.forget(session).await;
                return Err(self.late("to answer", time));
            }
            Ok(Err(error)) => error,
        };
        if let ServiceError::McpError(data) = &error {
            let message = self.shown(&data.message);
            return Err(Error::new(ErrorKind::FailedPrecondition, format!("MCP tool execution failed: {message}")));
        }
        self.forget(session).await;
        Err(match session.is_exceeded.load(Ordering::Relaxed) {
            true => self.too_long(),
            false => self.unavailable(&format!("did not answer: {}", self.shown(&error))),
        })
    }

    /// Drops a session, unless another one has taken its place. Calls that are under way on it may still end.
    async fn forget(&self, session: &Arc<McpSession>) {
        let mut current = self.session.lock().await;
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, session)) {
            *current = None;
        }
    }

    fn unavailable(&self, what: &str) -> Error {
        Error::new(ErrorKind::Unavailable, format!("{} {what}", self.name()))
    }

    fn late(&self, what: &str, time: Duration) -> Error {
        let message = format!("{} takes longer than {time:?} {what}; raise the timeout of its connection", self.name());
        Error::new(ErrorKind::Unavailable, message)
    }

    fn too_long(&self) -> Error {
        let limit = self.limits.message_bytes;
        let message = format!("{} sent a message of more than {limit} bytes, McpLimits::message_bytes", self.name());
        Error::new(ErrorKind::ResourceExhausted, message).not_retryable()
    }

    /// Returns the server's name for messages, without arguments, variables or headers.
    pub(crate) fn name(&self) -> String {
        match &self.params {
            McpConnectionParams::Stdio(params) => format!("the MCP server '{}'", params.command),
            McpConnectionParams::StreamableHttp(params) => {
                format!("the MCP server at {}", http::shown_address(&params.url))
            }
        }
    }

    /// Returns a text of the server, or about it, without secrets. A long text is truncated.
    fn shown(&self, text: &impl fmt::Display) -> String {
        let text = self.secrets.hidden_in(&text.to_string());
        let cut = text.char_indices().map(|(place, _)| place).find(|place| *place >= SHOWN);
        match cut {
            Some(cut) => format!("{}...", &text[..cut]),
            None => text,
        }
    }
}

impl McpSession {
    fn is_open(&self) -> bool {
        !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }
}

impl fmt::Debug for McpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpConnection").field(&self.params).finish()
    }
}
