//! The agents that `serve` hosts and `chat` talks to: from files, or the built-in ones.
//!
//! - `demo/`: the built-in agents. `models.rs`: remote models by name. `mcp.rs`: MCP servers. `keyless.rs`: models that
//!   are not called.

mod demo;
mod keyless;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(not(feature = "mcp"))]
#[path = "without_mcp.rs"]
mod mcp;
#[cfg(feature = "models")]
mod models;
#[cfg(not(feature = "models"))]
#[path = "without_models.rs"]
mod models;

use std::path::Path;
use std::sync::Arc;

use scratchbook::agent::{AgentCatalog, load_agent, load_agents};
use scratchbook::model::Llm;
use scratchbook::{Agent, Error, ErrorKind, Result};

pub(crate) use models::hosted;

use keyless::KeylessLlm;

/// Returns the built-in apps by name. Their scripts answer if no model is given.
///
/// # Errors
///
/// If one of them cannot be built.
pub(crate) fn demo(model: Option<Arc<dyn Llm>>) -> Result<Vec<(&'static str, Arc<dyn Agent>)>> {
    demo::apps(model.as_ref()).into_iter().collect()
}

/// Whether agents' files may name programs that are started as MCP servers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Programs {
    #[default]
    Refused,
    Allowed,
}

impl Programs {
    pub(crate) fn allowed_if(is_allowed: bool) -> Self {
        if is_allowed { Self::Allowed } else { Self::Refused }
    }
}

/// What a model in an agent's file needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ApiKeyNeed {
    /// The key of its provider.
    #[default]
    Needed,
    /// Nothing, because recordings are replayed.
    Optional,
}

/// How agents' files are read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileOptions<'a> {
    /// The model of all agents, in place of those that the files name.
    pub(crate) model: Option<&'a str>,
    pub(crate) programs: Programs,
    pub(crate) keys: ApiKeyNeed,
}

/// Loads the apps of a folder of Agent Configs.
///
/// # Errors
///
/// If an agent's file is invalid.
pub(crate) fn of_folder(folder: &Path, options: FileOptions<'_>) -> Result<Vec<(String, Arc<dyn Agent>)>> {
    load_agents(folder, &catalog(options)?)
}

/// Loads the agent of an Agent Config.
///
/// # Errors
///
/// If the file is invalid.
pub(crate) fn of_file(file: &Path, options: FileOptions<'_>) -> Result<Arc<dyn Agent>> {
    load_agent(file, &catalog(options)?)
}

/// Checks the name of a model for an agent's file. The model's key may be missing.
///
/// # Errors
///
/// If there is no model of this name.
pub(crate) fn check_model(name: &str) -> Result<()> {
    if [demo::ECHO, demo::SHOP].contains(&name) {
        return Ok(());
    }
    match named(name) {
        Err(error) if error.kind() != ErrorKind::FailedPrecondition => Err(error.context("--model")),
        _ => Ok(()),
    }
}

/// Returns the model for a name in an agent's file or after `--model`: a built-in model, or a remote one from
/// [`hosted`].
fn named(name: &str) -> Result<Arc<dyn Llm>> {
    hosted(name).map_err(|error| match error.kind() {
        ErrorKind::FailedPrecondition | ErrorKind::InvalidArgument | ErrorKind::NotFound | ErrorKind::Unsupported => {
            let offline = format!("'{}' and '{}' are models that work offline", demo::ECHO, demo::SHOP);
            Error::new(error.kind(), format!("{error}; {offline}"))
        }
        _ => error,
    })
}

/// Returns the model for a name in an agent's file.
fn for_file(name: &str, keys: ApiKeyNeed) -> Result<Arc<dyn Llm>> {
    match named(name) {
        Err(error) if keys == ApiKeyNeed::Optional && error.kind() == ErrorKind::FailedPrecondition => {
            Ok(Arc::new(KeylessLlm(name.to_owned())))
        }
        model => model,
    }
}

/// Returns the names that files can use: remote models, MCP servers, and the models and tools of the built-in agents.
/// Other tools need a program of your own.
///
/// There is no default model: an agent without a model is an error.
///
/// # Errors
///
/// If the options name an unknown model.
fn catalog(options: FileOptions<'_>) -> Result<AgentCatalog> {
    let FileOptions { model, programs, keys } = options;
    let catalog = AgentCatalog::new().model(demo::ECHO, demo::echo()).model(demo::SHOP, demo::shop());
    let catalog = catalog.models_from(move |name| for_file(name, keys).map(Some));
    let catalog = mcp::with_mcp(demo::tools().into_iter().fold(catalog, AgentCatalog::tool), programs);
    let Some(model) = model else { return Ok(catalog) };
    // The name is checked here, so that the error names the option and not a file that names another model.
    if ![demo::ECHO, demo::SHOP].contains(&model) {
        for_file(model, keys).map_err(|e| e.context("--model"))?;
    }
    Ok(catalog.model_for_all(model))
}
