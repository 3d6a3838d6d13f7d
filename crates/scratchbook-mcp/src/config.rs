//! Toolsets in files of ADK's Agent Config.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::params::{McpConnectionParams, StdioConnectionParams, StreamableHttpConnectionParams};
use crate::toolset::McpToolset;
use scratchbook_agent::config::{AgentCatalog, ConfiguredTool};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::json;

/// Whether files may name programs that are started as servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum McpConfigPolicy {
    /// Files may name only servers with an address.
    #[default]
    RemoteOnly,
    /// Files may name programs, too. The author of a file can then run any program on this machine.
    AllowStdio,
}

/// Adds ADK's class `McpToolset`, which is also called `MCPToolset`, to a catalog for files.
///
/// ```
/// use scratchbook::agent::AgentCatalog;
/// use scratchbook::mcp::{McpConfigPolicy, mcp_toolset_class};
///
/// let catalog = mcp_toolset_class(AgentCatalog::new(), McpConfigPolicy::RemoteOnly);
/// ```
#[must_use]
pub fn mcp_toolset_class(catalog: AgentCatalog, policy: McpConfigPolicy) -> AgentCatalog {
    let make = move |args: &Map<String, Value>| toolset(args, policy);
    catalog.tool_class("McpToolset", make).tool_class("MCPToolset", make)
}

/// The arguments of the class, as google-adk 2.13 reads them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolsetArgs {
    stdio_server_params: Option<ServerField>,
    stdio_connection_params: Option<StdioField>,
    streamable_http_connection_params: Option<HttpField>,
    sse_connection_params: Option<Value>,
    tool_filter: Option<Vec<String>>,
    tool_name_prefix: Option<String>,
    tool_list_cache_ttl_seconds: Option<f64>,
    auth_scheme: Option<Value>,
    auth_credential: Option<Value>,
    credential_key: Option<Value>,
    use_mcp_resources: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerField {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    cwd: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StdioField {
    server_params: ServerField,
    timeout: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpField {
    url: String,
    headers: Option<BTreeMap<String, String>>,
    timeout: Option<f64>,
    sse_read_timeout: Option<f64>,
    terminate_on_close: Option<bool>,
}

fn toolset(args: &Map<String, Value>, policy: McpConfigPolicy) -> Result<ConfiguredTool> {
    let args: ToolsetArgs = serde_json::from_value(Value::Object(args.clone()))
        .map_err(|e| Error::invalid(format!("its 'args' are invalid: {}", json::describe(&e))))?;
    args.check_supported()?;
    let mut builder = McpToolset::builder(args.params(policy)?);
    if let Some(names) = args.tool_filter {
        builder = builder.tool_filter(names);
    }
    if let Some(prefix) = args.tool_name_prefix {
        builder = builder.tool_name_prefix(prefix);
    }
    if let Some(time) = seconds("tool_list_cache_ttl_seconds", args.tool_list_cache_ttl_seconds)? {
        builder = builder.tool_list_cache_ttl(time);
    }
    Ok(ConfiguredTool::Toolset(Arc::new(builder.build()?)))
}

impl ToolsetArgs {
    /// Refuses arguments that would have no effect.
    fn check_supported(&self) -> Result<()> {
        let sse =
            "the protocol has deprecated it; use 'streamable_http_connection_params', which most servers have too";
        let auth = "put the server's key into the 'headers' of 'streamable_http_connection_params'";
        let unsupported = [
            ("sse_connection_params", self.sse_connection_params.is_some(), sse),
            ("auth_scheme", self.auth_scheme.is_some(), auth),
            ("auth_credential", self.auth_credential.is_some(), auth),
            ("credential_key", self.credential_key.is_some(), auth),
            ("use_mcp_resources: true", self.use_mcp_resources == Some(true), "leave it out; only tools are read"),
        ];
        match unsupported.iter().find(|(_, is_given, _)| *is_given) {
            Some((name, _, cure)) => {
                Err(Error::new(ErrorKind::Unsupported, format!("'{name}' is not supported: {cure}")))
            }
            None => Ok(()),
        }
    }

    fn params(&self, policy: McpConfigPolicy) -> Result<McpConnectionParams> {
        match (&self.stdio_server_params, &self.stdio_connection_params, &self.streamable_http_connection_params) {
            (Some(server), None, None) => server.params(policy).map(Into::into),
            (None, Some(field), None) => {
                let params = field.server_params.params(policy)?;
                let time = seconds("timeout", field.timeout)?;
                Ok(time.map_or(params.clone(), |time| params.with_timeout(time)).into())
            }
            (None, None, Some(field)) => field.params().map(Into::into),
            _ => Err(Error::invalid(
                "give exactly one of 'stdio_server_params', 'stdio_connection_params' and \
                 'streamable_http_connection_params'",
            )),
        }
    }
}

impl ServerField {
    fn params(&self, policy: McpConfigPolicy) -> Result<StdioConnectionParams> {
        if policy != McpConfigPolicy::AllowStdio {
            return Err(Error::new(
                ErrorKind::PermissionDenied,
                "a file may not name a program as an MCP server, because it would run on this machine; allow it if all \
                 files are trusted, or name a server by 'streamable_http_connection_params'",
            ));
        }
        let mut params = StdioConnectionParams::new(&self.command, &self.args);
        for (name, value) in self.env.iter().flatten() {
            params = params.with_env(name, value);
        }
        Ok(match &self.cwd {
            Some(folder) => params.with_cwd(folder),
            None => params,
        })
    }
}

impl HttpField {
    fn params(&self) -> Result<StreamableHttpConnectionParams> {
        if self.terminate_on_close == Some(false) {
            let message = "'terminate_on_close: false' is not supported; leave it out";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut params = StreamableHttpConnectionParams::new(&self.url);
        for (name, value) in self.headers.iter().flatten() {
            params = params.with_header(name, value);
        }
        if let Some(time) = seconds("timeout", self.timeout)? {
            params = params.with_timeout(time);
        }
        if let Some(time) = seconds("sse_read_timeout", self.sse_read_timeout)? {
            params = params.with_read_timeout(time);
        }
        Ok(params)
    }
}

fn seconds(name: &str, value: Option<f64>) -> Result<Option<Duration>> {
    let Some(value) = value else { return Ok(None) };
    match Duration::try_from_secs_f64(value) {
        Ok(time) if !time.is_zero() => Ok(Some(time)),
        _ => Err(Error::invalid(format!("'{name}' is {value}; give a number of seconds greater than 0"))),
    }
}
