//! The arguments of `scratchbook chat`.

use std::path::{Path, PathBuf};

use clap::Args;
use scratchbook::{Error, Result, SessionKey};

use super::{Address, AddressArgs, Within, named};

pub(super) const CHAT_EXAMPLES: &str = "\
Examples:
  scratchbook chat
  scratchbook chat --model gemini-2.5-flash  # with its key in GOOGLE_API_KEY
  scratchbook chat --agent agents/shop/root_agent.yaml --model ollama::llama3
  scratchbook chat --agents agents --app shop --user ann --session s1
  scratchbook chat --last
  echo 'Add two apples' | scratchbook chat --database memory:";

/// The app if none is named.
const DEMO: &str = "demo";

/// The file that makes a folder an app, as in ADK.
const ROOT: &str = "root_agent.yaml";

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// Talk to the agent in this file, an ADK Agent Config. The app is named after the file, or after its folder if the
    /// file is called root_agent.yaml
    #[arg(long, value_name = "FILE", conflicts_with_all = ["app", "agents"])]
    pub(crate) agent: Option<PathBuf>,
    /// The app: demo or story, or an app in the folder of --agents [default: demo; with --agents, the only app in the
    /// folder]
    #[arg(long, short, value_parser = named)]
    pub(crate) app: Option<String>,
    /// Talk to an agent in this folder. The folder contains either one root_agent.yaml, an ADK Agent Config, or one
    /// subfolder for each app with such a file
    #[arg(long, value_name = "DIR")]
    pub(crate) agents: Option<PathBuf>,
    /// Use this model for every agent, such as gemini-2.5-flash, openai::NAME or ollama::NAME [default: the model that
    /// the agent's file names; for demo and story, gemini-3.5-flash if its API key is set, or else a script]
    #[arg(long, short, value_parser = named)]
    pub(crate) model: Option<String>,
    /// Let agents' files name programs that are started as MCP servers
    #[arg(long)]
    pub(crate) allow_stdio_mcp: bool,
    /// Continue this session, or create it if it does not exist: its id or APP/USER/SESSION. The first 8 characters of
    /// a generated id are enough [default: a new session]
    #[arg(long, short, value_name = "SESSION", value_parser = named)]
    pub(crate) session: Option<String>,
    /// Continue the user's most recently updated session
    #[arg(long, conflicts_with = "session")]
    pub(crate) last: bool,
    /// The user [default: user]
    #[arg(long, short, value_name = "ID", value_parser = named)]
    pub(crate) user: Option<String>,
    /// Hide the values of keys that begin with this prefix, such as user:pin; can be repeated. Instructions of agents
    /// cannot use these keys
    #[arg(long, value_name = "PREFIX", value_parser = named)]
    pub(crate) secret: Vec<String>,
}

impl ChatArgs {
    /// The user if none is named, as in ADK's dev interface.
    pub(crate) const USER: &'static str = "user";

    /// Returns the address of the session in the agent's app; `None` for a new session.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for ids that no session can have, and for a session of another app or user.
    pub(crate) fn address(&self, app: &str) -> Result<Option<Address>> {
        let Some(text) = &self.session else {
            let within = Within { app: Some(app.to_owned()), user: Some(self.user_id().to_owned()) };
            return Ok(self.last.then_some(Address::Last(within)));
        };
        let key = match (AddressArgs { app: Some(app.to_owned()), ..AddressArgs::default() }).parse(text)? {
            Address::Beginning(Within { user: Some(user), .. }, id) => SessionKey::new(app, &user, &id)?,
            _ => SessionKey::new(app, self.user_id(), text)?,
        };
        if self.user.as_deref().is_some_and(|user| user != key.user_id()) {
            return Err(Error::invalid(format!("'{text}' is not a session of --user {}", self.user_id())));
        }
        Ok(Some(Address::Whole(key)))
    }

    /// Returns the user.
    pub(crate) fn user_id(&self) -> &str {
        self.user.as_deref().unwrap_or(Self::USER)
    }

    /// Returns the app, if it is known without reading the folder.
    pub(crate) fn app_name(&self) -> Option<String> {
        match (&self.agent, &self.app, &self.agents) {
            (Some(file), ..) => Some(app_of(file)),
            (None, Some(app), _) => Some(app.clone()),
            (None, None, None) => Some(DEMO.to_owned()),
            (None, None, Some(_)) => None,
        }
    }
}

/// Returns the app of an agent's file.
fn app_of(file: &Path) -> String {
    let full = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let is_root = full.file_name().is_some_and(|name| name == ROOT);
    let name = if is_root { full.parent().and_then(Path::file_name) } else { full.file_stem() };
    name.unwrap_or_default().to_string_lossy().into_owned()
}
