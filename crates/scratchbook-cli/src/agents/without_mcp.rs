//! Replaces MCP servers in a program without the feature `mcp`. Such a program refuses files that name one.

use scratchbook::agent::AgentCatalog;
use scratchbook::{Error, ErrorKind};

use super::Programs;

pub(super) fn with_mcp(catalog: AgentCatalog, _: Programs) -> AgentCatalog {
    ["McpToolset", "MCPToolset"].into_iter().fold(catalog, |catalog, name| {
        catalog.tool_class(name, |_| {
            let message = "this scratchbook was built without MCP servers; build it with --features mcp";
            Err(Error::new(ErrorKind::Unsupported, message))
        })
    })
}
