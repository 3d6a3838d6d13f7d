//! MCP servers in agents' files.

use scratchbook::agent::AgentCatalog;
use scratchbook::mcp::{McpConfigPolicy, mcp_toolset_class};

use super::Programs;

/// Lets files name MCP servers by address, and by program if that is allowed.
pub(super) fn with_mcp(catalog: AgentCatalog, programs: Programs) -> AgentCatalog {
    let policy = match programs {
        Programs::Refused => McpConfigPolicy::RemoteOnly,
        Programs::Allowed => McpConfigPolicy::AllowStdio,
    };
    mcp_toolset_class(catalog, policy)
}
