//! The database of a command.

use std::convert;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use scratchbook::artifact::ArtifactService;
use scratchbook::layer::{WithDeadline, sealed_limits};
use scratchbook::store::Limits;
use scratchbook::{Error, ErrorKind, SessionService, Store};

use crate::args::DASHES;
use crate::context::{AppSchema, Context, DEFAULT_DATABASE};
use crate::encryption::{self, EncryptedSessions, EncryptionKeys};
use crate::failure::CommandFailure;
use crate::schema;
use crate::shell::quoted;

/// An open database. Each call ends within the deadline.
///
/// [`close`](Self::close) closes the database. The stores are never dropped: a drop would wait for calls that have
/// timed out.
#[derive(Debug)]
pub(crate) struct OpenDatabase {
    pub(crate) sessions: ManuallyDrop<Arc<dyn SessionService>>,
    pub(crate) artifacts: ManuallyDrop<Arc<dyn ArtifactService>>,
    /// The id of the key that encrypts new values.
    #[cfg_attr(not(feature = "serve"), expect(dead_code, reason = "the server logs it"))]
    pub(crate) sealed_by: Option<String>,
}

impl OpenDatabase {
    /// Opens an existing database. A missing file is an error.
    pub(crate) async fn open(context: &Context) -> Result<Self, CommandFailure> {
        check(context.uri(DEFAULT_DATABASE))?;
        existing(context.uri(DEFAULT_DATABASE))?;
        Self::open_or_create(context, DEFAULT_DATABASE).await
    }

    /// Opens a database, and creates it if it does not exist.
    pub(crate) async fn open_or_create(context: &Context, default: &str) -> Result<Self, CommandFailure> {
        let encryption = EncryptionKeys::of(context)?;
        let (store, limits) = stored(context, default, encryption.as_ref()).await?;
        let sealed_by = encryption.as_ref().map(EncryptionKeys::current);
        let Store { sessions, artifacts, .. } = match encryption {
            Some(encryption) => encryption.around(store, limits),
            None => store,
        };
        let sessions: Arc<dyn SessionService> = match &context.schema {
            Some(AppSchema { app, schema }) => schema::guarded(sessions, app, schema.clone()),
            None => sessions,
        };
        Ok(Self { sealed_by, ..Self::of(bounded(Store::of(sessions, artifacts), context.options.deadline)) })
    }

    /// Opens an existing database, and returns its sessions twice: without decryption, and with the keyring's
    /// encryption.
    pub(crate) async fn open_to_reseal(context: &Context) -> Result<(Self, EncryptedSessions), CommandFailure> {
        let Some(encryption) = EncryptionKeys::of(context)? else { return Err(encryption::no_keyring().into()) };
        check(context.uri(DEFAULT_DATABASE))?;
        existing(context.uri(DEFAULT_DATABASE))?;
        let (store, limits) = stored(context, DEFAULT_DATABASE, Some(&encryption)).await?;
        let store = bounded(store, context.options.deadline);
        let sealed = encryption.sessions(Arc::clone(&store.sessions), limits);
        Ok((Self::of(store), sealed))
    }

    /// Opens an existing database without decryption, for reads of what is stored as it is stored.
    pub(crate) async fn open_as_stored(context: &Context) -> Result<Self, CommandFailure> {
        check(context.uri(DEFAULT_DATABASE))?;
        existing(context.uri(DEFAULT_DATABASE))?;
        let encryption = EncryptionKeys::of(context)?;
        let (store, _) = stored(context, DEFAULT_DATABASE, encryption.as_ref()).await?;
        Ok(Self::of(bounded(store, context.options.deadline)))
    }

    /// Returns the sessions and the artifacts as a store.
    pub(crate) fn store(&self) -> Store {
        Store::of(Arc::clone(&self.sessions), Arc::clone(&self.artifacts))
    }

    /// Wraps an open store.
    pub(crate) fn of(Store { sessions, artifacts, .. }: Store) -> Self {
        Self { sessions: ManuallyDrop::new(sessions), artifacts: ManuallyDrop::new(artifacts), sealed_by: None }
    }

    pub(crate) async fn close(&self) -> Result<(), CommandFailure> {
        Ok(self.sessions.close().await?)
    }
}

/// Opens a store, and returns it with the limits on values before encryption. Encryption makes values longer.
async fn stored(
    context: &Context,
    default: &str,
    encryption: Option<&EncryptionKeys>,
) -> Result<(Store, Limits), CommandFailure> {
    check(context.uri(default))?;
    let room: fn(Limits) -> Limits = if encryption.is_some() { sealed_limits } else { convert::identity };
    let opened = context.within(scratchbook::store::connect_with_limits(context.uri(default), room)).await?;
    encryption::check(&opened.0, encryption, context).await?;
    Ok(opened)
}

/// Applies the deadline to each call of a store.
fn bounded(store: Store, deadline: Option<Duration>) -> Store {
    let Some(deadline) = deadline else { return store };
    let sessions = WithDeadline::new(store.sessions, deadline);
    Store::of(Arc::new(sessions), Arc::new(WithDeadline::new(store.artifacts, deadline)))
}

/// Returns the URI of a database that need not exist.
pub(crate) fn checked_uri(context: &Context) -> Result<&str, CommandFailure> {
    let uri = context.uri(DEFAULT_DATABASE);
    check(uri)?;
    Ok(uri)
}

/// Returns the URI of an existing SQLite file.
pub(crate) fn sqlite_uri(context: &Context) -> Result<&str, CommandFailure> {
    let uri = context.uri(DEFAULT_DATABASE);
    if uri.starts_with("memory:") {
        let message = "memory: holds nothing to copy; name a file with --database sqlite://PATH";
        return Err(Error::new(ErrorKind::Unsupported, message).into());
    }
    check(uri)?;
    if !uri.starts_with("sqlite://") {
        let message =
            "only SQLite files are copied; for a database server use its own tool, such as pg_dump or mysqldump";
        return Err(Error::new(ErrorKind::Unsupported, message).into());
    }
    existing(uri)?;
    Ok(uri)
}

/// Refuses a malformed URI, and says what to write instead.
fn check(uri: &str) -> Result<(), Error> {
    let meant = match uri.split_once(':') {
        _ if uri.contains("://") || uri == "memory:" => return Ok(()),
        Some(("postgresql" | "postgres" | "mysql" | "mariadb", _)) => "SCHEME://USER:PASSWORD@HOST/DATABASE".to_owned(),
        Some(("sqlite", path)) => format!("sqlite://{path}"),
        Some(("" | "memory", _)) => "memory:".to_owned(),
        None if uri == "memory" => "memory:".to_owned(),
        // This is a connection string of libpq, which may contain a password.
        _ if uri.contains('=') => "SCHEME://USER:PASSWORD@HOST/DATABASE, or sqlite://PATH".to_owned(),
        _ => "sqlite://PATH".to_owned(),
    };
    // `-dash=1` is read as `-d ash=1`.
    let dashes = if uri.contains('=') { format!(". {DASHES}") } else { String::new() };
    let uri = scratchbook::store::without_password(uri);
    let message = format!("'{uri}' is not the URI of a database; write --database {meant}{dashes}");
    Err(Error::invalid(message))
}

fn existing(uri: &str) -> Result<(), CommandFailure> {
    match path_of(uri) {
        // Opening the file reports other errors better.
        Some(path) if !path.as_os_str().is_empty() && path.try_exists().is_ok_and(|exists| !exists) => {
            Err(no_database(&path, uri).into())
        }
        _ => Ok(()),
    }
}

fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("sqlite://")?;
    Some(PathBuf::from(rest.split('?').next().unwrap_or_default()))
}

fn no_database(path: &Path, uri: &str) -> Error {
    let parameters = uri.split_once('?').map_or("", |(_, parameters)| parameters);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    // In Python, an address has a slash more.
    let here = path.strip_prefix("/").ok().filter(|here| here.is_file());
    let path = path.display();
    if let Some(here) = here.map(Path::display) {
        return Error::not_found(format!(
            "there is no database {path}; the file {here} in this folder is {}, with two slashes",
            uri_of(&here.to_string(), parameters)
        ));
    }
    Error::not_found(match folder {
        Some(folder) => format!(
            "there is no database {path}, and no directory {}; name another database with --database",
            folder.display()
        ),
        None => {
            // With a mode, a missing file is not created.
            let others = parameters.split('&').filter(|parameter| !parameter.starts_with("mode="));
            let uri = uri_of(&path.to_string(), &others.collect::<Vec<_>>().join("&"));
            format!(
                "there is no database {path}; name another with --database, or make it with: scratchbook sessions create --app APP --user USER --database {}",
                quoted(&uri)
            )
        }
    })
}

/// Returns the URI of a file with these parameters.
fn uri_of(path: &str, parameters: &str) -> String {
    let separator = if parameters.is_empty() { "" } else { "?" };
    format!("sqlite://{path}{separator}{parameters}")
}
