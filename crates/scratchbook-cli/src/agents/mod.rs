//! The agents that are hosted and talked to: those of files, or the demo's.
//!
//! - `demo/`: the agents of this program. `models.rs`: models by name, behind HTTP.

mod demo;
mod models;

use std::path::Path;
use std::sync::Arc;

use scratchbook::{Agent, AgentCatalog, Llm, Result, load_agent, load_agents};

pub(crate) use models::hosted;

/// The apps of this program by name. They answer by a script where no model is given.
///
/// # Errors
///
/// Where one of them cannot be built.
pub(crate) fn demo(model: Option<Arc<dyn Llm>>) -> Result<Vec<(&'static str, Arc<dyn Agent>)>> {
    demo::apps(model.as_ref()).into_iter().collect()
}

/// The apps of a folder of Agent Configs by name; with a model named, all their agents have that one.
///
/// # Errors
///
/// Where a file of an agent cannot be used.
pub(crate) fn of_folder(folder: &Path, model: Option<&str>) -> Result<Vec<(String, Arc<dyn Agent>)>> {
    load_agents(folder, &catalog(model))
}

/// The agent of an Agent Config; with a model named, it and those below it have that one.
///
/// # Errors
///
/// Where the file cannot be used.
pub(crate) fn of_file(file: &Path, model: Option<&str>) -> Result<Arc<dyn Agent>> {
    load_agent(file, &catalog(model))
}

/// What files may name here: models by their names, and the models and tools of the demo. Others take a program of one's
/// own.
///
/// No model is the default: whoever forgot to name one would talk to an echo.
fn catalog(model: Option<&str>) -> AgentCatalog {
    let catalog = AgentCatalog::new().model(demo::ECHO, demo::echo()).model(demo::SHOP, demo::shop());
    let catalog = catalog.models_from(|name| hosted(name).map(Some));
    let catalog = demo::tools().into_iter().fold(catalog, AgentCatalog::tool);
    model.into_iter().fold(catalog, AgentCatalog::model_for_all)
}
