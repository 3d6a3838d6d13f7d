//! The tools of a server, as an agent's tools.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::connection::{McpConnection, bytes_of};
use crate::http;
use crate::limits::McpLimits;
use crate::params::McpConnectionParams;
use crate::tool::McpTool;
use scratchbook_agent::agent::ReadonlyContext;
use scratchbook_agent::tool::{Tool, Toolset};
use scratchbook_core::error::{Error, ErrorKind, Result};

/// Names that a server's tools cannot have, because agents use them for their own tools.
const RESERVED: [&str; 5] = [
    "adk_request_confirmation",
    "adk_request_credential",
    "adk_request_input",
    "set_model_response",
    "transfer_to_agent",
];

/// ADK's `McpToolset`: the tools of an MCP server.
///
/// The toolset starts the server, or connects to it, when an agent's turn first needs its tools, and again after the
/// server has died. [`close`](Self::close) ends the session, and so does dropping the last copy. The model receives the
/// server's descriptions between markers, in ADK's words, as data that gives no instructions.
///
/// ```no_run
/// use scratchbook::mcp::{McpToolset, StdioConnectionParams};
/// use scratchbook::LlmAgent;
///
/// let server = StdioConnectionParams::new("npx", ["-y", "@modelcontextprotocol/server-everything"]);
/// let tools = McpToolset::builder(server).tool_filter(["echo", "get-sum"]).tool_name_prefix("every").build()?;
/// let agent = LlmAgent::builder("helper").toolset(tools).build()?;
/// # Ok::<(), scratchbook::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct McpToolset {
    connection: Arc<McpConnection>,
    filter: Option<BTreeSet<String>>,
    prefix: Option<String>,
    needs_confirmation: bool,
}

impl McpToolset {
    /// Creates a toolset with all tools of a server. Nothing is started or sent yet.
    ///
    /// # Errors
    ///
    /// As for [`McpToolsetBuilder::build`].
    pub fn new(server: impl Into<McpConnectionParams>) -> Result<Self> {
        Self::builder(server).build()
    }

    /// Starts building a toolset.
    pub fn builder(server: impl Into<McpConnectionParams>) -> McpToolsetBuilder {
        McpToolsetBuilder {
            params: server.into(),
            limits: McpLimits::default(),
            filter: None,
            prefix: None,
            list_ttl: None,
            needs_confirmation: false,
        }
    }

    /// Ends the session with the server. A server that is a process gets two seconds to end by itself. A later turn of
    /// an agent starts it again.
    pub async fn close(&self) {
        self.connection.close().await;
    }

    /// Returns whether the agent gets the tool.
    fn selects(&self, tool: &rmcp::model::Tool) -> bool {
        if RESERVED.contains(&&*tool.name) {
            tracing::warn!(tool = %tool.name, "an MCP server has a tool with a reserved name, which is left out");
            return false;
        }
        self.filter.as_ref().is_none_or(|filter| filter.contains(&*tool.name))
    }

    /// Refuses a tool that takes too much of every request.
    fn check_size(&self, tool: &rmcp::model::Tool) -> Result<()> {
        let limit = self.connection.limits.tool_bytes;
        let bytes = bytes_of(tool);
        if bytes <= limit {
            return Ok(());
        }
        let message = format!(
            "{} describes the tool '{}' in {bytes} bytes, but at most {limit} are allowed, McpLimits::tool_bytes; leave the \
             tool out by a filter",
            self.connection.name(),
            tool.name.chars().take(100).collect::<String>()
        );
        Err(Error::new(ErrorKind::ResourceExhausted, message))
    }
}

#[async_trait]
impl Toolset for McpToolset {
    async fn get_tools(&self, _context: &ReadonlyContext) -> Result<Vec<Arc<dyn Tool>>> {
        let mut listed = self.connection.list_tools().await?;
        listed.retain(|tool| self.selects(tool));
        // A server may list its tools in another order each time, and providers cache requests that begin alike.
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        let tools = listed.into_iter().map(|tool| -> Result<Arc<dyn Tool>> {
            self.check_size(&tool)?;
            let connection = Arc::clone(&self.connection);
            Ok(Arc::new(McpTool::new(connection, tool, self.prefix.as_deref(), self.needs_confirmation)))
        });
        tools.collect()
    }
}

/// Builds an [`McpToolset`].
#[derive(Clone, Debug)]
#[must_use]
pub struct McpToolsetBuilder {
    params: McpConnectionParams,
    limits: McpLimits,
    filter: Option<BTreeSet<String>>,
    prefix: Option<String>,
    list_ttl: Option<Duration>,
    needs_confirmation: bool,
}

impl McpToolsetBuilder {
    /// Takes only the tools with these names. They are the server's names, without a prefix.
    pub fn tool_filter<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.filter = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Puts a prefix and `_` before the name of each tool, so that tools of two servers can have the same name.
    pub fn tool_name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into()).filter(|prefix| !prefix.is_empty());
        self
    }

    /// Reuses the server's list of tools for this time. By default, each turn of an agent lists the tools. Tools that
    /// the server adds or removes in the meantime go unnoticed.
    pub fn tool_list_cache_ttl(mut self, time: Duration) -> Self {
        self.list_ttl = Some(time);
        self
    }

    /// Requires the user's consent for every call.
    pub fn require_confirmation(mut self) -> Self {
        self.needs_confirmation = true;
        self
    }

    /// Sets the limits on what the server sends.
    pub fn limits(mut self, limits: McpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Builds the toolset. Nothing is started or sent yet.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the command is empty, if the address is not HTTP, or if a header is invalid.
    pub fn build(self) -> Result<McpToolset> {
        match &self.params {
            McpConnectionParams::Stdio(params) if params.command.is_empty() => {
                return Err(Error::invalid("the command of an MCP server is empty; name a program, such as npx"));
            }
            McpConnectionParams::Stdio(_) => {}
            McpConnectionParams::StreamableHttp(params) => http::check(params)?,
        }
        let Self { params, limits, filter, prefix, list_ttl, needs_confirmation } = self;
        let connection = Arc::new(McpConnection::new(params, limits, list_ttl));
        Ok(McpToolset { connection, filter, prefix, needs_confirmation })
    }
}
