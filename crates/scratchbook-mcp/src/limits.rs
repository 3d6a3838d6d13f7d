//! Limits on what a server sends.

/// Limits on what an MCP server sends. If a server exceeds a limit, the request to it fails with an error that names
/// the limit.
///
/// ```
/// use scratchbook::mcp::McpLimits;
///
/// let limits = McpLimits { tools: 20, ..McpLimits::default() };
/// assert_eq!(limits.answer_bytes, 1024 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpLimits {
    /// The maximum bytes of one message; 4 MiB by default.
    pub message_bytes: usize,
    /// The maximum bytes of notifications, and of requests of its own, that a server sends before it answers a request;
    /// 16 MiB by default. Then the session ends, and the next call opens another.
    pub notification_bytes: usize,
    /// The maximum bytes of the answer to a call, as JSON; 1 MiB by default. The answer becomes part of the
    /// conversation, which is stored and sent to the model.
    pub answer_bytes: usize,
    /// The maximum number of tools that a server lists; 256 by default.
    pub tools: usize,
    /// The maximum bytes of a tool's name, description and schemas together; 64 KiB by default.
    pub tool_bytes: usize,
}

impl Default for McpLimits {
    fn default() -> Self {
        Self {
            message_bytes: 4 << 20,
            notification_bytes: 16 << 20,
            answer_bytes: 1 << 20,
            tools: 256,
            tool_bytes: 64 << 10,
        }
    }
}
