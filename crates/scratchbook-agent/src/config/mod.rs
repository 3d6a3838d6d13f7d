//! Agents written as ADK's Agent Config: YAML files that name models, tools and each other.

mod catalog;
mod file;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::agent::{Agent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent};
use crate::tool::AgentTool;
use scratchbook_core::error::{Error, ErrorKind, Result};

pub use catalog::{AgentCatalog, ConfiguredTool};

use file::{AgentClass, AgentFile, AgentToolArgs, Reference, ToolEntry};

/// The file that makes a folder an app, as in ADK.
const ROOT: &str = "root_agent.yaml";

/// The file that makes a folder a Python agent. ADK hosts such folders as well.
const PYTHON: &str = "agent.py";

/// The maximum depth of nested agents. It stops the loading of files that name each other in a circle.
const MAX_DEPTH: usize = 32;

/// Reads an agent from a file of ADK's Agent Config, together with the sub-agents that it names by file.
///
/// ```
/// use scratchbook::agent::{AgentCatalog, load_agent};
/// use scratchbook::model::ScriptedLlm;
///
/// # let folder = tempfile::tempdir().unwrap();
/// let file = folder.path().join("root_agent.yaml");
/// std::fs::write(&file, "name: greeter\nmodel: scripted\ninstruction: Greet {user:name?}.\n").unwrap();
///
/// let catalog = AgentCatalog::new().model("scripted", ScriptedLlm::new(["Hello."]));
/// let agent = load_agent(&file, &catalog)?;
/// assert_eq!(agent.name(), "greeter");
/// # Ok::<(), scratchbook::Error>(())
/// ```
///
/// # Errors
///
/// `NotFound` if a file does not exist, or if the catalog lacks a model, tool or agent; `InvalidArgument` with line and
/// column if a file is not an Agent Config; `Unsupported` for a field of ADK that has no meaning here.
pub fn load_agent(file: &Path, catalog: &AgentCatalog) -> Result<Arc<dyn Agent>> {
    Loader { catalog, open: Vec::new() }.load(file, None)
}

/// Reads all apps in a folder. Each subfolder with a `root_agent.yaml` is an app with the subfolder's name. If the
/// given folder itself has a `root_agent.yaml`, it is the only app. Subfolders with a Python agent, an `agent.py`, are
/// skipped, and a warning is logged for each.
///
/// # Errors
///
/// As for [`load_agent`]; `NotFound` if there is no app, and `InvalidArgument` if a folder's name is not a valid app
/// name: a letter, then letters, digits, `_` and `-`, and not `user`.
pub fn load_agents(folder: &Path, catalog: &AgentCatalog) -> Result<Vec<(String, Arc<dyn Agent>)>> {
    let Folders { apps: folders, python } = Folders::of(folder)?;
    let mut apps = Vec::new();
    for folder in folders {
        let name = app_name(&folder)?;
        apps.push((name, load_agent(&folder.join(ROOT), catalog)?));
    }
    let left_out: Vec<_> = python.iter().map(|folder| left_out(folder)).collect();
    if apps.is_empty() {
        let shown = folder.display();
        let none = format!("there is no app in {shown}; one is a folder in it with a {ROOT}");
        return Err(Error::not_found([vec![none], left_out].concat().join("; ")));
    }
    for folder in left_out {
        tracing::warn!("{folder}");
    }
    Ok(apps)
}

fn left_out(folder: &Path) -> String {
    format!("{} is a Python agent ({PYTHON}); only {ROOT} can be hosted here", folder.display())
}

/// Folders with agents, sorted by their bytes.
#[derive(Default)]
struct Folders {
    apps: Vec<PathBuf>,
    /// Folders with Python agents.
    python: Vec<PathBuf>,
}

impl Folders {
    /// Finds the apps: the folder itself if it is an app, otherwise the apps among its subfolders.
    fn of(folder: &Path) -> Result<Self> {
        let unreadable = |e: std::io::Error| file_error(folder, &e);
        let mut folders = Self::default();
        if folder.join(ROOT).is_file() {
            folders.apps.push(folder.canonicalize().map_err(unreadable)?);
            return Ok(folders);
        }
        folders.python.extend(folder.join(PYTHON).is_file().then(|| folder.to_owned()));
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.join(ROOT).is_file() {
                folders.apps.push(path);
            } else if path.join(PYTHON).is_file() {
                folders.python.push(path);
            }
        }
        folders.apps.sort();
        folders.python.sort();
        Ok(folders)
    }
}

/// Returns the name of the app in a folder; the rule is ADK's.
fn app_name(folder: &Path) -> Result<String> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let goes_on = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if begins && goes_on && name != "user" {
        return Ok(name);
    }
    Err(Error::invalid(format!(
        "the folder '{name}' cannot be an app; call it by a letter, then letters, digits, '_' and '-', and not 'user'"
    )))
}

/// Builds agents from files, and keeps track of the files that are being built.
struct Loader<'a> {
    catalog: &'a AgentCatalog,
    open: Vec<PathBuf>,
}

impl Loader<'_> {
    /// Loads the agent in a file; `inherited` is the model of the agent above it.
    fn load(&mut self, path: &Path, inherited: Option<&str>) -> Result<Arc<dyn Agent>> {
        let path = path.canonicalize().map_err(|e| file_error(path, &e))?;
        if self.open.contains(&path) || self.open.len() >= MAX_DEPTH {
            let shown = path.display();
            return Err(Error::invalid(format!("{shown} is below itself; an agent has one place in a tree")));
        }
        let text = fs::read_to_string(&path).map_err(|e| file_error(&path, &e))?;
        self.open.push(path.clone());
        let built = AgentFile::parse(&text).and_then(|file| self.build(file, &path, inherited));
        self.open.pop();
        built.map_err(|e| e.context(path.display()))
    }

    fn build(&mut self, file: AgentFile, path: &Path, inherited: Option<&str>) -> Result<Arc<dyn Agent>> {
        let model = file.model.as_deref().filter(|model| !model.is_empty()).or(inherited);
        let mut sub_agents = Vec::new();
        for reference in &file.sub_agents {
            sub_agents.push(self.find(reference, path, model)?);
        }
        let AgentFile { name, description, .. } = &file;
        Ok(match file.class {
            AgentClass::Llm => Arc::new(self.llm_agent(&file, path, model, sub_agents)?),
            AgentClass::Sequential => Arc::new(SequentialAgent::new(name, sub_agents).with_description(description)),
            AgentClass::Parallel => Arc::new(ParallelAgent::new(name, sub_agents).with_description(description)),
            AgentClass::Loop => {
                let agent = LoopAgent::new(name, sub_agents).with_description(description);
                Arc::new(match file.max_iterations {
                    Some(rounds) => agent.with_max_iterations(rounds),
                    None => agent,
                })
            }
        })
    }

    /// Returns the agent that a file names.
    fn find(&mut self, reference: &Reference, path: &Path, model: Option<&str>) -> Result<Arc<dyn Agent>> {
        match reference {
            Reference::File(file) => self.load(&beside(path, file)?, model),
            Reference::Code(name) => self.catalog.find_agent(name),
        }
    }

    /// Returns the tool or the toolset of an entry.
    fn tool(&mut self, entry: &ToolEntry, path: &Path, model: Option<&str>) -> Result<ConfiguredTool> {
        let Some(AgentToolArgs { agent, skip_summarization, include_plugins }) = entry.as_agent_tool()? else {
            return self.catalog.find_tool(&entry.name, entry.args.as_ref());
        };
        let mut tool = AgentTool::new(self.find(&agent, path, model)?)?;
        if skip_summarization {
            tool = tool.skip_summarization();
        }
        if !include_plugins {
            tool = tool.without_plugins();
        }
        Ok(ConfiguredTool::Tool(Arc::new(tool)))
    }

    fn llm_agent(
        &mut self,
        file: &AgentFile,
        path: &Path,
        model: Option<&str>,
        sub_agents: Vec<Arc<dyn Agent>>,
    ) -> Result<LlmAgent> {
        let mut agent = LlmAgent::builder(&file.name)
            .description(&file.description)
            .model(self.catalog.find_model(model, &file.name)?);
        if let Some(instruction) = &file.instruction {
            agent = agent.instruction(instruction.as_str());
        }
        if let Some(instruction) = &file.static_instruction {
            agent = agent.static_instruction(instruction.clone());
        }
        if let Some(config) = &file.generate_content_config {
            agent = agent.generate_content_config(config.clone());
        }
        if file.disallow_transfer_to_parent {
            agent = agent.disallow_transfer_to_parent();
        }
        if file.disallow_transfer_to_peers {
            agent = agent.disallow_transfer_to_peers();
        }
        agent = agent.include_contents(file.include_contents);
        if let Some(key) = &file.output_key {
            agent = agent.output_key(key);
        }
        for entry in &file.tools {
            agent = match self.tool(entry, path, model)? {
                ConfiguredTool::Tool(tool) => agent.tool(tool),
                ConfiguredTool::Toolset(toolset) => agent.toolset(toolset),
            };
        }
        for sub_agent in sub_agents {
            agent = agent.sub_agent(sub_agent);
        }
        agent.build()
    }
}

/// Returns the path of a file that the file at `path` names. As in ADK, it has to be in the same folder or below.
fn beside(path: &Path, file: &str) -> Result<PathBuf> {
    let named = path.with_file_name(file);
    let found = named.canonicalize().map_err(|e| file_error(&named, &e))?;
    if Path::new(file).is_absolute() || !path.parent().is_some_and(|folder| found.starts_with(folder)) {
        let message = format!("'{file}' is not in the folder of the file that names it, or below; move it there");
        return Err(Error::invalid(message));
    }
    Ok(found)
}

fn file_error(path: &Path, error: &std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        std::io::ErrorKind::InvalidData | std::io::ErrorKind::NotADirectory => ErrorKind::InvalidArgument,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("{} cannot be read: {error}", path.display()))
}
