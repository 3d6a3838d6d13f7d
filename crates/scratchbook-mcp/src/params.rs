//! How a server is reached.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How an MCP server is reached: as a process, or over HTTP.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum McpConnectionParams {
    /// The server is a process that this program starts.
    Stdio(StdioConnectionParams),
    /// The server has an address.
    StreamableHttp(StreamableHttpConnectionParams),
}

/// A server that is started as a process and speaks over its standard input and output.
///
/// Of this program's environment, the process gets only `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and `USER`. The
/// process ends with the toolset, together with the processes that it has started. Its standard error is this
/// program's.
///
/// ```
/// use scratchbook::mcp::StdioConnectionParams;
///
/// let server = StdioConnectionParams::new("npx", ["-y", "@modelcontextprotocol/server-everything"]);
/// ```
#[derive(Clone)]
pub struct StdioConnectionParams {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: Option<String>,
    pub(crate) timeout: Duration,
}

/// A server with an address, which speaks over streamable HTTP. Redirects are not followed, because they would send the
/// headers to another address.
///
/// ```
/// use std::time::Duration;
/// use scratchbook::mcp::StreamableHttpConnectionParams;
///
/// let server = StreamableHttpConnectionParams::new("https://mcp.example/mcp")
///     .with_header("Authorization", "Bearer my-token")
///     .with_timeout(Duration::from_secs(2));
/// ```
#[derive(Clone)]
pub struct StreamableHttpConnectionParams {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) timeout: Duration,
    pub(crate) read_timeout: Duration,
}

/// ADK's default for connecting, and for a call over standard input and output.
const TIMEOUT: Duration = Duration::from_secs(5);

/// ADK's default for a call over HTTP.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

impl StdioConnectionParams {
    /// Creates the parameters of a server with this program and arguments.
    pub fn new<A: Into<String>>(command: impl Into<String>, args: impl IntoIterator<Item = A>) -> Self {
        Self {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            cwd: None,
            timeout: TIMEOUT,
        }
    }

    /// Sets a variable of the process's environment, such as a key that the server needs.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Sets the process's working folder. The default is this program's working folder.
    #[must_use]
    pub fn with_cwd(mut self, folder: impl Into<String>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// Sets how long the start of the server and each request to it may take; 5 seconds by default.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl StreamableHttpConnectionParams {
    /// Creates the parameters of a server with this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: Vec::new(), timeout: TIMEOUT, read_timeout: READ_TIMEOUT }
    }

    /// Adds a header to every request.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets how long connecting and listing the tools may take; 5 seconds by default.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how long a call of a tool may take; 5 minutes by default. ADK calls this `sse_read_timeout`.
    #[must_use]
    pub fn with_read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = timeout;
        self
    }
}

impl McpConnectionParams {
    /// Returns how long connecting and listing the tools may take.
    pub(crate) fn timeout(&self) -> Duration {
        match self {
            Self::Stdio(params) => params.timeout,
            Self::StreamableHttp(params) => params.timeout,
        }
    }

    /// Returns how long a call of a tool may take.
    pub(crate) fn read_timeout(&self) -> Duration {
        match self {
            Self::Stdio(params) => params.timeout,
            Self::StreamableHttp(params) => params.read_timeout,
        }
    }
}

impl From<StdioConnectionParams> for McpConnectionParams {
    fn from(params: StdioConnectionParams) -> Self {
        Self::Stdio(params)
    }
}

impl From<StreamableHttpConnectionParams> for McpConnectionParams {
    fn from(params: StreamableHttpConnectionParams) -> Self {
        Self::StreamableHttp(params)
    }
}

/// Arguments and variables may be secrets, so only the program is shown.
impl fmt::Debug for StdioConnectionParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioConnectionParams").field("command", &self.command).finish_non_exhaustive()
    }
}

/// Headers and the address may have secrets, so only the host is shown.
impl fmt::Debug for StreamableHttpConnectionParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = crate::http::shown_address(&self.url);
        f.debug_struct("StreamableHttpConnectionParams").field("host", &host).finish_non_exhaustive()
    }
}
