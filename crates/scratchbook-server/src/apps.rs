//! The agents that are hosted, each the root of an app.

use std::collections::BTreeMap;
use std::sync::Arc;

use scratchbook::{Agent, Environment, Error, Result, Runner, Store};

/// The apps by name.
#[derive(Debug, Default)]
pub(crate) struct Apps {
    by_name: BTreeMap<String, App>,
}

/// An app with an agent.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) runner: Runner,
}

impl Apps {
    /// # Errors
    ///
    /// `InvalidArgument` where two apps have one name, and where a runner cannot be built of one.
    pub(crate) fn new(
        agents: Vec<(String, Arc<dyn Agent>)>,
        store: &Store,
        environment: &Arc<dyn Environment>,
    ) -> Result<Self> {
        let mut by_name = BTreeMap::new();
        for (name, agent) in agents {
            let runner = Runner::builder(&name, Arc::clone(&agent), Arc::clone(&store.sessions))
                .artifacts(Arc::clone(&store.artifacts))
                .environment(Arc::clone(environment))
                .build()
                .map_err(|e| e.context(&format!("the app '{name}'")))?;
            if by_name.insert(name.clone(), App { agent, runner }).is_some() {
                return Err(Error::invalid(format!("two apps are called '{name}'; give each a name of its own")));
            }
        }
        Ok(Self { by_name })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&App> {
        self.by_name.get(name)
    }

    /// The names, in byte order.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.by_name.keys().map(String::as_str).collect()
    }
}
