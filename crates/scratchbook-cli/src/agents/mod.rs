//! The agents that `serve` hosts and `chat` talks to: from files, or the built-in ones.
//!
//! - `demo/`: the built-in agents. `models.rs`: remote models by name.

mod demo;
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

/// Returns the built-in apps by name. Their scripts answer if no model is given.
///
/// # Errors
///
/// If one of them cannot be built.
pub(crate) fn demo(model: Option<Arc<dyn Llm>>) -> Result<Vec<(&'static str, Arc<dyn Agent>)>> {
    demo::apps(model.as_ref()).into_iter().collect()
}

/// Loads the apps of a folder of Agent Configs. If `model` names a model, all agents use it.
///
/// # Errors
///
/// If an agent's file is invalid.
pub(crate) fn of_folder(folder: &Path, model: Option<&str>) -> Result<Vec<(String, Arc<dyn Agent>)>> {
    load_agents(folder, &catalog(model)?)
}

/// Loads the agent of an Agent Config. If `model` names a model, it and its sub-agents use it.
///
/// # Errors
///
/// If the file is invalid.
pub(crate) fn of_file(file: &Path, model: Option<&str>) -> Result<Arc<dyn Agent>> {
    load_agent(file, &catalog(model)?)
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

/// Returns the names that files can use: remote models, and the models and tools of the built-in agents. Other tools
/// need a program of your own.
///
/// There is no default model: an agent without a model is an error.
///
/// # Errors
///
/// If `model` names an unknown model.
fn catalog(model: Option<&str>) -> Result<AgentCatalog> {
    let catalog = AgentCatalog::new().model(demo::ECHO, demo::echo()).model(demo::SHOP, demo::shop());
    let catalog = catalog.models_from(|name| named(name).map(Some));
    let catalog = demo::tools().into_iter().fold(catalog, AgentCatalog::tool);
    let Some(model) = model else { return Ok(catalog) };
    // The name is checked here, so that the error names the option and not a file that names another model.
    if ![demo::ECHO, demo::SHOP].contains(&model) {
        named(model).map_err(|e| e.context("--model"))?;
    }
    Ok(catalog.model_for_all(model))
}
