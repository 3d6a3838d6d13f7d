//! What can be written after `scratchbook chat`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::named;

pub(super) const CHAT_EXAMPLES: &str = "\
Examples:
  scratchbook chat
  scratchbook chat --model gemini-2.5-flash            # its key is in GOOGLE_API_KEY
  scratchbook chat --agent agents/shop/root_agent.yaml --model ollama::llama3
  scratchbook chat --agents agents --app shop --user ann --session s1
  echo 'Add two apples' | scratchbook chat --database memory:";

/// The app that is talked to where none is named.
const DEMO: &str = "demo";

/// The file that makes a folder an app, as in ADK.
const ROOT: &str = "root_agent.yaml";

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// Talk to the agent of this file, ADK's Agent Config. Its app is called as the folder is, where the file is a
    /// root_agent.yaml, or else as the file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["app", "agents"])]
    pub(crate) agent: Option<PathBuf>,
    /// The app: demo or story, or one of --agents [default: demo, or the only one]
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Talk to an agent of this folder: a folder for each app with a root_agent.yaml, ADK's Agent Config
    #[arg(long, value_name = "DIR")]
    pub(crate) agents: Option<PathBuf>,
    /// Have every agent answer by this model, whatever its file names: gemini-2.5-flash, openai::NAME, ollama::NAME
    #[arg(long, short, value_parser = named)]
    pub(crate) model: Option<String>,
    /// Go on with this session, or begin it; a new one, if none is named
    #[arg(long, short, value_name = "ID", value_parser = named)]
    pub(crate) session: Option<String>,
    /// Who is talking
    #[arg(long, short, value_name = "ID", default_value = ChatArgs::USER, value_parser = named)]
    pub(crate) user: String,
    /// Show no values of keys that begin so, and let no instruction insert them: user:pin; may be given several times
    #[arg(long, value_name = "PREFIX", value_parser = named)]
    pub(crate) secret: Vec<String>,
}

impl ChatArgs {
    /// Whose conversations these are where nobody is named; as in ADK's dev interface.
    pub(crate) const USER: &'static str = "user";

    /// The app, as far as it is known before a folder is looked at.
    pub(crate) fn app_name(&self) -> Option<String> {
        match (&self.agent, &self.app, &self.agents) {
            (Some(file), ..) => Some(app_of(file)),
            (None, Some(app), _) => Some(app.clone()),
            (None, None, None) => Some(DEMO.to_owned()),
            (None, None, Some(_)) => None,
        }
    }
}

/// The app of a file, by the names around it.
fn app_of(file: &Path) -> String {
    let full = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let is_root = full.file_name().is_some_and(|name| name == ROOT);
    let name = if is_root { full.parent().and_then(Path::file_name) } else { full.file_stem() };
    name.unwrap_or_default().to_string_lossy().into_owned()
}
