//! The context of a command: its global options, completed from the environment, and the schema that they name.

use std::fs;
use std::path::Path;

use scratchbook::{Error, ErrorKind, Result};

use crate::args::{Cli, Command, GlobalOptions};
use crate::environment;
use crate::schema::{self, StateSchema};

/// The database if no option and no variable names one.
pub(crate) const DEFAULT_DATABASE: &str = "sqlite://scratchbook.db";

/// The context of a command.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) options: GlobalOptions,
    pub(crate) schema: Option<AppSchema>,
}

/// The schema that `--schema` names, for the command's app.
#[derive(Debug)]
pub(crate) struct AppSchema {
    pub(crate) app: String,
    pub(crate) schema: StateSchema,
}

impl Context {
    /// Completes the options of a command line.
    ///
    /// # Errors
    ///
    /// If a variable of the environment or the schema is invalid, or if the command takes no schema.
    pub(crate) fn new(cli: Cli) -> Result<(Self, Command)> {
        let Cli { global: mut options, command } = cli;
        // The demo ignores the environment, so that a forgotten variable cannot make it write to a real database.
        if !matches!(command, Command::Demo(_)) {
            if options.database.is_none() {
                options.database = environment::database()?;
            }
            if options.keyring.is_none() {
                options.keyring = environment::keyring();
            }
            if options.plain_values.is_none() {
                options.plain_values = environment::plain_values()?;
            }
        }
        let schema = options.schema.as_deref().map(|file| AppSchema::read(file, &command)).transpose()?;
        Ok((Self { options, schema }, command))
    }

    /// Returns the URI of the database.
    pub(crate) fn uri<'a>(&'a self, default: &'a str) -> &'a str {
        self.options.database.as_deref().unwrap_or(default)
    }

    /// Applies the deadline to a call without its own deadline.
    pub(crate) async fn within<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let Some(deadline) = self.options.deadline else { return call.await };
        tokio::time::timeout(deadline, call).await.unwrap_or_else(|_| {
            let seconds = deadline.as_secs_f64();
            Err(Error::new(ErrorKind::Unavailable, format!("no answer within the deadline of {seconds} s; try again")))
        })
    }
}

impl AppSchema {
    fn read(file: &Path, command: &Command) -> Result<Self> {
        let app = command.app().ok_or_else(|| {
            let message = "--schema is for commands on the state of one app: sessions, state and chat, with --app or \
                           APP/USER/SESSION; name the app, or leave it out";
            Error::invalid(message)
        })?;
        Ok(Self { app, schema: read_schema(file)? })
    }
}

/// Reads a schema from a file.
pub(crate) fn read_schema(file: &Path) -> Result<StateSchema> {
    let name = file.display();
    let text = fs::read_to_string(file).map_err(|e| {
        let (kind, what) = match e.kind() {
            std::io::ErrorKind::NotFound => (ErrorKind::NotFound, "is not there; name a file with a schema"),
            std::io::ErrorKind::PermissionDenied => (ErrorKind::PermissionDenied, "may not be read"),
            std::io::ErrorKind::InvalidData => (ErrorKind::InvalidArgument, "is not UTF-8; a schema is JSON"),
            std::io::ErrorKind::IsADirectory => (ErrorKind::InvalidArgument, "is a folder; name a file"),
            _ => (ErrorKind::Unavailable, "cannot be read"),
        };
        Error::new(kind, format!("{name} {what}")).with_source(e)
    })?;
    schema::parse(&text).map_err(|e| e.context(name.to_string()))
}
