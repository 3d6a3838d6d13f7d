//! The connection to a server: opened when it is needed, shared by all calls, and opened again after it broke.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, Implementation, PaginatedRequestParams,
    Tool,
};
use rmcp::service::{RoleClient, RunningService, ServiceError, serve_client};
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::failure;
use crate::http;
use crate::inbound::{Inbound, InboundFault};
use crate::limits::McpLimits;
use crate::lines;
use crate::params::McpConnectionParams;
use crate::process::McpProcess;
use crate::secrets::ConnectionSecrets;
use scratchbook_core::error::{Error, ErrorKind, Result};

/// The maximum bytes of a server's message that an error repeats.
const SHOWN: usize = 1000;

/// How many pages a list may have at least, whatever the limit on tools: a page may be empty.
const PAGES: usize = 100;

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
    inbound: Arc<Inbound>,
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
            let mut tools: Vec<Tool> = Vec::new();
            let mut bytes = 0_usize;
            let mut cursor: Option<String> = None;
            let mut cursors = HashSet::new();
            loop {
                let page = PaginatedRequestParams::default().with_cursor(cursor.clone());
                let page = session.service.peer().list_tools(Some(page)).await?;
                bytes = page.tools.iter().map(bytes_of).fold(bytes, usize::saturating_add);
                // A server that ignores the cursor sends its first page again.
                let earlier = tools.len();
                let is_new = |tool: &Tool| !tools[..earlier].contains(tool);
                let new: Vec<_> = page.tools.into_iter().filter(is_new).collect();
                tools.extend(new);
                cursor = page.next_cursor;
                let Some(next) = &cursor else { break };
                bytes = bytes.saturating_add(next.len());
                // A cursor is opaque, and may be empty. One that comes again would never end.
                if !cursors.insert(next.clone()) || tools.len() > self.limits.tools || bytes > most {
                    break;
                }
                if cursors.len() > self.limits.tools.max(PAGES) {
                    return Ok((tools, usize::MAX));
                }
            }
            Ok::<_, ServiceError>((tools, bytes))
        };
        let (tools, bytes) = self.answered(&session, self.params.timeout(), listing).await?;
        if tools.len() > self.limits.tools {
            let message = format!("{} lists more than {} tools, McpLimits::tools", self.name(), self.limits.tools);
            return Err(Error::new(ErrorKind::ResourceExhausted, message).not_retryable());
        }
        if bytes > most {
            let message =
                format!("{} lists tools of more than {most} bytes together, or on too many pages", self.name());
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
        let inbound = Arc::new(Inbound::new(self.limits));
        let client = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("scratchbook", env!("CARGO_PKG_VERSION")),
        );
        let (served, process) = match &self.params {
            McpConnectionParams::Stdio(params) => {
                let (process, output, input) = McpProcess::start(params)?;
                let transport = (lines::write(input), lines::read(output, Arc::clone(&inbound)));
                (serve_client(client, transport).await, Some(process))
            }
            McpConnectionParams::StreamableHttp(params) => {
                (serve_client(client, http::transport(params, Arc::clone(&inbound))?).await, None)
            }
        };
        let service = served.map_err(|error| match inbound.fault() {
            Some(fault) => self.exceeded(fault),
            None => self.unavailable(&format!("cannot be connected to: {}", self.shown(&failure::of_start(&error)))),
        })?;
        Ok(McpSession { service, process: Mutex::new(process), inbound })
    }

    /// Awaits a request up to a time limit. If the session is broken, or the server does not answer in time, the session
    /// is dropped, and the next call opens another.
    async fn answered<T>(
        &self,
        session: &Arc<McpSession>,
        time: Duration,
        request: impl Future<Output = std::result::Result<T, ServiceError>>,
    ) -> Result<T> {
        let outcome = tokio::select! {
            outcome = timeout(time, request) => outcome,
            Some(fault) = session.inbound.exceeded() => {
                self.forget(session).await;
                return Err(self.exceeded(fault));
            }
        };
        let error = match outcome {
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
        Err(match session.inbound.fault() {
            Some(fault) => self.exceeded(fault),
            None => self.unavailable(&format!("did not answer: {}", self.shown(&failure::of_request(&error)))),
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

    fn exceeded(&self, fault: InboundFault) -> Error {
        let McpLimits { message_bytes, notification_bytes, .. } = self.limits;
        let what = match fault {
            InboundFault::Message => format!("a message of more than {message_bytes} bytes, McpLimits::message_bytes"),
            InboundFault::Notifications => format!(
                "more than {notification_bytes} bytes without an answer to a request, McpLimits::notification_bytes"
            ),
        };
        Error::new(ErrorKind::ResourceExhausted, format!("{} sent {what}", self.name())).not_retryable()
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
        !self.service.is_closed() && !self.service.peer().is_transport_closed() && self.inbound.fault().is_none()
    }
}

impl fmt::Debug for McpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpConnection").field(&self.params).finish()
    }
}
