//! The hosted apps: those in a folder, or the built-in ones.

use std::sync::Arc;

use scratchbook::{Agent, Result};
use scratchbook_server::ServerBuilder;

use crate::agents::{self, ApiKeyNeed, FileOptions, Programs};
use crate::args::ServeArgs;

/// The hosted apps.
pub(super) enum HostedApps {
    /// The built-in apps.
    Demo(Vec<(&'static str, Arc<dyn Agent>)>),
    /// The apps in a folder of Agent Configs.
    Files(Vec<(String, Arc<dyn Agent>)>),
}

impl HostedApps {
    /// Loads the apps that the options name.
    ///
    /// # Errors
    ///
    /// If an agent's file or a model is invalid.
    pub(super) fn of(args: &ServeArgs) -> Result<Self> {
        let model = args.model.as_deref();
        match &args.agents {
            Some(folder) => {
                let programs = Programs::allowed_if(args.allow_stdio_mcp);
                let keys = if args.conformance.is_some() { ApiKeyNeed::Optional } else { ApiKeyNeed::Needed };
                agents::of_folder(folder, FileOptions { model, programs, keys }).map(Self::Files)
            }
            None if args.no_demo => Ok(Self::Files(Vec::new())),
            None => agents::demo(model.map(agents::hosted).transpose()?).map(Self::Demo),
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
