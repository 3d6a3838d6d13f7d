//! The models, tools and agents that are written in code and that configuration files may name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::file::built_in_name;
use crate::agent::Agent;
use crate::model::Llm;
use crate::tool::{GoogleSearchTool, LoadArtifactsTool, Tool, Toolset, exit_loop, get_user_choice, transfer_to_agent};
use scratchbook_core::error::{Error, Result};

/// The tool or the toolset that an entry under `tools` of a file stands for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConfiguredTool {
    /// A tool.
    Tool(Arc<dyn Tool>),
    /// A source of tools.
    Toolset(Arc<dyn Toolset>),
}

type ToolClass = dyn Fn(&Map<String, Value>) -> Result<ConfiguredTool> + Send + Sync;

type ModelSource = dyn Fn(&str) -> Result<Option<Arc<dyn Llm>>> + Send + Sync;

/// The models, tools and agents that an [Agent Config](crate::config::load_agent) may name.
///
/// A dotted name, as in Python programs, is looked up as a whole first and then by its last part:
/// `my_lib.tools.roll_die` finds the tool `roll_die`.
#[derive(Clone, Default)]
pub struct AgentCatalog {
    models: BTreeMap<String, Arc<dyn Llm>>,
    source: Option<Arc<ModelSource>>,
    default_model: Option<String>,
    model_for_all: Option<String>,
    tools: BTreeMap<String, Arc<dyn Tool>>,
    tool_classes: BTreeMap<String, Arc<ToolClass>>,
    agents: BTreeMap<String, Arc<dyn Agent>>,
}

impl AgentCatalog {
    /// Creates an empty catalog.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a model by name.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>, model: impl Llm) -> Self {
        self.models.insert(name.into(), Arc::new(model));
        self
    }

    /// Sets a function that returns a model for a name that was not added, or `None` for an unknown name.
    #[must_use]
    pub fn models_from(
        mut self,
        source: impl Fn(&str) -> Result<Option<Arc<dyn Llm>>> + Send + Sync + 'static,
    ) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Sets the model of agents for which no model is named, neither in their own file nor in the file of an agent
    /// above.
    #[must_use]
    pub fn default_model(mut self, name: impl Into<String>) -> Self {
        self.default_model = Some(name.into());
        self
    }

    /// Sets one model for all agents, even if their files name other models, for example to try another model.
    #[must_use]
    pub fn model_for_all(mut self, name: impl Into<String>) -> Self {
        self.model_for_all = Some(name.into());
        self
    }

    /// Adds a tool under the name that it declares.
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Self {
        let name = tool.declaration().name.clone();
        self.tools.insert(name, Arc::new(tool));
        self
    }

    /// Adds a class of tools under a name. The function makes a tool or a toolset from the `args` of an entry. If an
    /// entry has no `args`, the function receives an empty map.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use scratchbook::agent::{AgentCatalog, ConfiguredTool, FunctionTool, ToolContext};
    /// use serde_json::{Map, Value};
    ///
    /// let catalog = AgentCatalog::new().tool_class("Die", |args| {
    ///     let sides = args.get("sides").and_then(Value::as_u64).unwrap_or(6);
    ///     let roll = move |_: Map<String, Value>, _: ToolContext| async move { Ok(sides) };
    ///     Ok(ConfiguredTool::Tool(Arc::new(FunctionTool::new("roll", "Rolls a die.", roll))))
    /// });
    /// ```
    #[must_use]
    pub fn tool_class(
        mut self,
        name: impl Into<String>,
        make: impl Fn(&Map<String, Value>) -> Result<ConfiguredTool> + Send + Sync + 'static,
    ) -> Self {
        self.tool_classes.insert(name.into(), Arc::new(make));
        self
    }

    /// Adds an agent that files can name as a sub-agent, by `code: NAME`.
    #[must_use]
    pub fn agent(mut self, name: impl Into<String>, agent: impl Agent) -> Self {
        self.agents.insert(name.into(), Arc::new(agent));
        self
    }

    /// # Errors
    ///
    /// `NotFound` lists the known models. An error of the function set by `models_from` names the model and the agent.
    pub(super) fn find_model(&self, name: Option<&str>, agent: &str) -> Result<Arc<dyn Llm>> {
        let Some(name) = self.model_for_all.as_deref().or(name).or(self.default_model.as_deref()) else {
            return Err(Error::invalid(format!("the agent '{agent}' has no model; name one, or in an agent above it")));
        };
        if let Some(model) = self.models.get(name) {
            return Ok(Arc::clone(model));
        }
        let found = match &self.source {
            Some(source) => source(name).map_err(|e| e.context(format!("the model '{name}' of agent '{agent}'")))?,
            None => None,
        };
        found.ok_or_else(|| {
            let known = listed(self.models.keys());
            Error::not_found(format!("the agent '{agent}' asks for the model '{name}'; there are: {known}"))
        })
    }

    /// Returns the tool of an entry: one of the application's own, or one of ADK's built-in tools.
    ///
    /// # Errors
    ///
    /// `NotFound` lists the known tools. If the function of a tool class fails, the error names the class.
    pub(super) fn find_tool(&self, name: &str, args: Option<&Map<String, Value>>) -> Result<ConfiguredTool> {
        if let Some(class) = find(&self.tool_classes, name) {
            return class(args.unwrap_or(&Map::new())).map_err(|e| e.context(format!("the tool '{name}'")));
        }
        let Some(tool) = find(&self.tools, name).or_else(|| built_in(name)) else {
            let known = listed(self.tools.keys().chain(self.tool_classes.keys()));
            let built_in = BUILT_IN.join(", ");
            let message = format!("there is no tool '{name}'; there are: {known}; and of ADK's own: {built_in}");
            return Err(Error::not_found(message));
        };
        match args {
            Some(_) => Err(Error::invalid(format!("the tool '{name}' takes no 'args'; leave them out"))),
            None => Ok(ConfiguredTool::Tool(tool)),
        }
    }

    /// # Errors
    ///
    /// `NotFound` lists the known agents.
    pub(super) fn find_agent(&self, name: &str) -> Result<Arc<dyn Agent>> {
        find(&self.agents, name).ok_or_else(|| {
            let known = listed(self.agents.keys());
            Error::not_found(format!("there is no agent '{name}' in code; there are: {known}"))
        })
    }
}

/// Shows only names, since a model may contain an API key.
impl fmt::Debug for AgentCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentCatalog")
            .field("models", &self.models.keys())
            .field("default_model", &self.default_model)
            .field("model_for_all", &self.model_for_all)
            .field("tools", &self.tools.keys())
            .field("tool_classes", &self.tool_classes.keys())
            .field("agents", &self.agents.keys())
            .finish_non_exhaustive()
    }
}

/// The names of ADK's built-in tools, without `AgentTool`, which has arguments.
const BUILT_IN: [&str; 5] = ["exit_loop", "get_user_choice", "google_search", "load_artifacts", "transfer_to_agent"];

/// Returns one of ADK's built-in tools. As in ADK, the name may begin with the tool's package and module. Two tools
/// have a second name, which is their name in their module.
fn built_in(name: &str) -> Option<Arc<dyn Tool>> {
    let tool: Arc<dyn Tool> = match built_in_name(name) {
        "exit_loop" => Arc::new(exit_loop()),
        "get_user_choice" | "get_user_choice_tool" => Arc::new(get_user_choice()),
        "google_search" => Arc::new(GoogleSearchTool::new()),
        "load_artifacts" | "load_artifacts_tool" => Arc::new(LoadArtifactsTool::new()),
        "transfer_to_agent" => Arc::new(transfer_to_agent()),
        _ => return None,
    };
    Some(tool)
}

/// Looks up a name that may contain dots.
fn find<T: ?Sized>(known: &BTreeMap<String, Arc<T>>, name: &str) -> Option<Arc<T>> {
    let last = name.rsplit('.').next().unwrap_or(name);
    known.get(name).or_else(|| known.get(last)).map(Arc::clone)
}

fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<_> = names.map(|name| format!("'{name}'")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
