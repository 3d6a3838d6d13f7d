//! The agents that are hosted, each the root of an app.

use std::collections::BTreeMap;
use std::sync::Arc;

use scratchbook::agent::RunnerBuilder;
use scratchbook::{Agent, Error, Result, Runner};

/// The apps by name.
#[derive(Debug, Default)]
pub(crate) struct Apps {
    by_name: BTreeMap<String, App>,
}

/// An app with an agent.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) origin: AgentSource,
    pub(crate) runner: Runner,
}

/// The kind of an agent's source. ADK's clients know two languages and refuse all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentSource {
    /// An agent built in code.
    Code,
    /// An agent from a file of ADK's Agent Config.
    Config,
}

impl AgentSource {
    /// Returns the language that ADK's clients are shown.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Code => "python",
            Self::Config => "yaml",
        }
    }
}

impl Apps {
    /// # Errors
    ///
    /// `InvalidArgument` if two apps have the same name, or if the runner of an app cannot be built.
    pub(crate) fn new(
        agents: Vec<(String, Arc<dyn Agent>, AgentSource)>,
        runner: impl Fn(&str, &Arc<dyn Agent>) -> RunnerBuilder,
    ) -> Result<Self> {
        let mut by_name = BTreeMap::new();
        for (name, agent, origin) in agents {
            let runner = runner(&name, &agent).build().map_err(|e| e.context(format!("the app '{name}'")))?;
            if by_name.insert(name.clone(), App { agent, origin, runner }).is_some() {
                return Err(Error::invalid(format!("two apps are called '{name}'; give each a name of its own")));
            }
        }
        Ok(Self { by_name })
    }

    /// Returns the apps with their names, in byte order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &App)> {
        self.by_name.iter().map(|(name, app)| (name.as_str(), app))
    }

    /// Returns an app by name.
    pub(crate) fn get(&self, name: &str) -> Option<&App> {
        self.by_name.get(name)
    }
}
