//! Toolsets in files of ADK's Agent Config.

use scratchbook::agent::{Agent, AgentCatalog, load_agent};
use scratchbook::mcp::{McpConfigPolicy, mcp_toolset_class};
use scratchbook::model::ScriptedLlm;
use scratchbook::{ErrorKind, Result};

fn load(tools: &str, policy: McpConfigPolicy) -> Result<std::sync::Arc<dyn Agent>> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("root_agent.yaml");
    std::fs::write(&file, format!("name: helper\nmodel: scripted\ntools:\n{tools}")).unwrap();
    let catalog = AgentCatalog::new().model("scripted", ScriptedLlm::new(["Hello."]));
    load_agent(&file, &mcp_toolset_class(catalog, policy))
}

const STDIO: &str = "
- name: MCPToolset
  args:
    stdio_server_params:
      command: npx
      args: ['-y', '@example/server']
      env: {KEY: secret-in-a-file}
";

#[test]
fn a_file_names_servers_by_address_and_by_program() {
    let remote = "
- name: McpToolset
  args:
    streamable_http_connection_params: {url: 'https://mcp.example/mcp', headers: {X-Key: abc}, timeout: 2.5}
    tool_filter: [search, fetch]
    tool_name_prefix: web
    tool_list_cache_ttl_seconds: 60
- name: exit_loop
";
    let agent = load(remote, McpConfigPolicy::RemoteOnly).unwrap();
    let agent = agent.as_llm_agent().unwrap();
    assert_eq!((agent.toolsets().count(), agent.tools().len()), (1, 1));
    assert_eq!(load(STDIO, McpConfigPolicy::AllowStdio).unwrap().as_llm_agent().unwrap().toolsets().count(), 1);
    let both = "
- name: McpToolset
  args:
    stdio_connection_params: {server_params: {command: npx}, timeout: 10}
";
    assert!(load(both, McpConfigPolicy::AllowStdio).is_ok());
}

#[test]
fn a_program_in_a_file_is_refused_unless_it_is_allowed() {
    let error = load(STDIO, McpConfigPolicy::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(!format!("{error} {error:?}").contains("secret-in"), "{error}");
}

#[test]
fn arguments_without_effect_are_refused() {
    let url = "streamable_http_connection_params: {url: 'http://mcp.example'}";
    let cases = [
        ("{}", ErrorKind::InvalidArgument, "exactly one of"),
        (&format!("{{{url}, stdio_server_params: {{command: a}}}}"), ErrorKind::InvalidArgument, "exactly one of"),
        (&format!("{{{url}, use_mcp_resources: true}}"), ErrorKind::Unsupported, "use_mcp_resources"),
        (&format!("{{{url}, auth_scheme: {{type: apiKey}}}}"), ErrorKind::Unsupported, "auth_scheme"),
        (&format!("{{{url}, tool_list_cache_ttl_seconds: 0}}"), ErrorKind::InvalidArgument, "greater than 0"),
        (&format!("{{{url}, tool_filtre: [a]}}"), ErrorKind::InvalidArgument, "tool_filtre"),
        (
            "{sse_connection_params: {url: 'http://mcp.example'}}",
            ErrorKind::Unsupported,
            "use 'streamable_http_connection_params'",
        ),
        (
            "{streamable_http_connection_params: {url: 'http://mcp.example', timeout: -1}}",
            ErrorKind::InvalidArgument,
            "greater than 0",
        ),
        ("{streamable_http_connection_params: {url: secret-host}}", ErrorKind::InvalidArgument, "address"),
    ];
    for (args, kind, said) in cases {
        let error = load(&format!("- name: McpToolset\n  args: {args}\n"), McpConfigPolicy::AllowStdio).err().unwrap();
        assert_eq!(error.kind(), kind, "{args}: {error}");
        assert!(error.to_string().contains(said), "{args}: {error}");
        assert!(!error.to_string().contains("secret-host"), "{error}");
    }
}
