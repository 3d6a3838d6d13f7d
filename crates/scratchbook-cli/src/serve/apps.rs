//! The apps that are hosted: those of a folder, or the demo's.

use std::path::Path;
use std::sync::Arc;

use scratchbook::{Agent, AgentCatalog, Error, Result, load_agents};
use scratchbook_server::ServerBuilder;

use super::demo;
use crate::args::ServeArgs;

/// Apps by name.
pub(super) enum Apps {
    /// Of this program.
    Demo(Vec<(&'static str, Arc<dyn Agent>)>),
    /// Of files.
    Files(Vec<(String, Arc<dyn Agent>)>),
}

impl Apps {
    /// The apps that are asked for.
    ///
    /// # Errors
    ///
    /// Where a file of an agent cannot be used.
    pub(super) fn of(args: &ServeArgs) -> Result<Self> {
        match &args.agents {
            Some(folder) => load_agents(Path::new(folder), &catalog()).map(Self::Files),
            None if args.no_demo => Ok(Self::Files(Vec::new())),
            None => demo::apps().into_iter().collect::<Result<_>>().map(Self::Demo),
        }
    }

    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Demo(apps) => apps.iter().map(|(name, _)| (*name).to_owned()).collect(),
            Self::Files(apps) => apps.iter().map(|(name, _)| name.clone()).collect(),
        }
    }

    pub(super) fn host(self, server: ServerBuilder) -> ServerBuilder {
        match self {
            Self::Demo(apps) => apps.into_iter().fold(server, |server, (name, agent)| server.app(name, agent)),
            Self::Files(apps) => server.config_apps(apps),
        }
    }
}

/// What files may name here: the models and tools of the demo. Others take a program of one's own.
///
/// No model is the default: whoever forgot to name one would talk to an echo.
fn catalog() -> AgentCatalog {
    let catalog = AgentCatalog::new().model(demo::ECHO, demo::echo()).models_from(|_| {
        Err(Error::not_found(format!(
            "hosted models are not included yet; there are '{}' and '{}', and a program of your own can add others",
            demo::ECHO,
            demo::SHOP
        )))
    });
    demo::tools().into_iter().fold(catalog.model(demo::SHOP, demo::shop()), AgentCatalog::tool)
}
