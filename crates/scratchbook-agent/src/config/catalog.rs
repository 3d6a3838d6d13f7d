//! The models, tools and agents that are written in code and that configuration files may name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::agent::Agent;
use crate::model::Llm;
use crate::tool::Tool;
use scratchbook_core::error::{Error, Result};

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

    /// Sets one model for all agents, whatever their files name, for example to try another model.
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

    /// # Errors
    ///
    /// `NotFound` lists the known tools.
    pub(super) fn find_tool(&self, name: &str) -> Result<Arc<dyn Tool>> {
        find(&self.tools, name).ok_or_else(|| {
            let known = listed(self.tools.keys());
            Error::not_found(format!("there is no tool '{name}'; there are: {known}"))
        })
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
            .field("agents", &self.agents.keys())
            .finish_non_exhaustive()
    }
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
