//! Files like the samples in ADK's repository. Files without Python load; errors say what the other files need.

use std::path::PathBuf;
use std::sync::Arc;

use scratchbook::agent::{AgentCatalog, ConfiguredTool, FunctionAgent, FunctionTool, ToolContext, load_agent};
use scratchbook::model::{Llm, LlmRequest, LlmStream};
use scratchbook::{Agent, Error, ErrorKind, Result};
use serde_json::{Map, Value};

/// The folders of files that need no Python.
#[cfg(feature = "mcp")]
pub(super) const WITHOUT_PYTHON: [&str; 8] =
    ["agent_tool", "basic", "built_in_tool", "generate_content_config", "hand_over", "loop", "mcp_stdio", "sequence"];

/// The root file in a folder of samples.
pub(super) fn file(folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/agent_config/samples").join(folder).join("root_agent.yaml")
}

/// A model with a name, which is never asked.
#[derive(Debug)]
struct NamedModel(String);

impl Llm for NamedModel {
    fn name(&self) -> &str {
        &self.0
    }

    fn generate(&self, _request: LlmRequest) -> LlmStream {
        Box::pin(futures_util::stream::empty())
    }
}

/// A catalog with every model and, if this build has them, MCP servers.
pub(super) fn catalog() -> AgentCatalog {
    with_mcp(AgentCatalog::new().models_from(|name| Ok(Some(Arc::new(NamedModel(name.to_owned())) as Arc<dyn Llm>))))
}

#[cfg(feature = "mcp")]
fn with_mcp(catalog: AgentCatalog) -> AgentCatalog {
    scratchbook::mcp::mcp_toolset_class(catalog, scratchbook::mcp::McpConfigPolicy::AllowStdio)
}

#[cfg(not(feature = "mcp"))]
fn with_mcp(catalog: AgentCatalog) -> AgentCatalog {
    catalog
}

#[cfg(feature = "mcp")]
#[test]
fn files_that_need_no_python_load() {
    for folder in WITHOUT_PYTHON {
        if let Err(error) = load_agent(&file(folder), &catalog()) {
            panic!("{folder}: {error}");
        }
    }
}

fn refusal(folder: &str) -> Error {
    load_agent(&file(folder), &catalog()).map(|agent| agent.name().to_owned()).unwrap_err()
}

#[test]
fn files_with_python_are_refused_with_what_they_need() {
    for (folder, kind, named) in [
        ("python/callbacks", ErrorKind::Unsupported, "'before_agent_callbacks'"),
        ("python/custom_agent", ErrorKind::Unsupported, "'works.agents.Worker'"),
        ("python/functions", ErrorKind::NotFound, "'dice.tools.roll_die'"),
        ("python/hand_over", ErrorKind::NotFound, "'dice.roll_die'"),
        ("python/long_running", ErrorKind::NotFound, "'LongRunningFunctionTool'"),
    ] {
        let error = refusal(folder);
        assert_eq!(error.kind(), kind, "{folder}: {error}");
        assert!(error.to_string().contains(named), "{folder}: {error}");
    }
}

#[test]
fn a_catalog_has_the_tools_and_agents_of_files_with_python() {
    let tool = |name: &str| {
        FunctionTool::new(name, "Acts.", |_: Map<String, Value>, _: ToolContext| async { Ok(Value::Null) })
    };
    let custom = FunctionAgent::new("custom", |_| futures_util::stream::empty::<Result<scratchbook::Event>>());
    let catalog =
        catalog().tool(tool("roll_die")).agent("custom", custom).tool_class("LongRunningFunctionTool", move |args| {
            assert_eq!(args["func"], "office.tools.ask_for_approval");
            Ok(ConfiguredTool::Tool(Arc::new(tool("ask_for_approval").long_running())))
        });
    for folder in ["python/functions", "python/hand_over", "python/long_running"] {
        let agent = load_agent(&file(folder), &catalog);
        assert_eq!(agent.unwrap().as_llm_agent().unwrap().tools().len(), 1, "{folder}");
    }
}
