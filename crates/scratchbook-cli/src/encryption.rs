//! The encryption of a database: its keyring, and warnings about a missing one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use scratchbook::layer::{Keyring, PlainValues, WithEncryption, sealed_by};
use scratchbook::session::ListSessionsConfig;
use scratchbook::store::Limits;
use scratchbook::{Error, ErrorKind, GetSessionConfig, SessionService, Store};

use crate::args::Plain;
use crate::context::Context;
use crate::failure::{self, CommandFailure};

/// A session service with encryption.
pub(crate) type EncryptedSessions = WithEncryption<Arc<dyn SessionService>>;

/// The keys that encrypt a database.
#[derive(Debug)]
pub(crate) struct EncryptionKeys {
    ring: Keyring,
    plain: PlainValues,
    file: PathBuf,
}

impl EncryptionKeys {
    /// Reads the keyring, if the options name one.
    pub(crate) fn of(context: &Context) -> Result<Option<Self>, CommandFailure> {
        let Some(file) = &context.options.keyring else {
            if context.options.plain_values.is_some() {
                let message =
                    "--plain-values says what happens beside sealed values; name the keys with --keyring FILE";
                return Err(Error::invalid(message).into());
            }
            return Ok(None);
        };
        let ring = Keyring::from_file(file)?;
        if let Some(message) = too_open(file) {
            failure::warn(&message, context.options.json);
        }
        let plain = match context.options.plain_values {
            Some(Plain::Refused) => PlainValues::Refused,
            Some(Plain::Read) | None => PlainValues::Read,
        };
        Ok(Some(Self { ring, plain, file: file.clone() }))
    }

    /// Returns the id of the key that encrypts new values.
    pub(crate) fn current(&self) -> String {
        self.ring.current().to_owned()
    }

    /// Adds encryption to a store, with limits on values before encryption.
    pub(crate) fn around(&self, store: Store, limits: Limits) -> Store {
        let sessions = self.sessions(store.sessions, limits);
        let artifacts = WithEncryption::new_with(store.artifacts, self.ring.clone(), self.plain).with_limits(limits);
        Store::of(Arc::new(sessions), Arc::new(artifacts))
    }

    /// Adds encryption to a session service.
    pub(crate) fn sessions(&self, sessions: Arc<dyn SessionService>, limits: Limits) -> EncryptedSessions {
        WithEncryption::new_with(sessions, self.ring.clone(), self.plain).with_limits(limits)
    }
}

/// Returns the error of a command that requires a keyring.
pub(crate) fn no_keyring() -> Error {
    let message = "say by which keys: --keyring FILE, with the new one as its current key and the old ones beside it";
    Error::invalid(message)
}

/// Checks that the key of the newest session is in the keyring, and warns if there is no keyring.
///
/// The check can find mistakes but proves nothing, since it reads only one session. Without a keyring it only warns: a
/// user of an unencrypted database can write text that looks encrypted, and this must not keep a server from starting.
///
/// # Errors
///
/// `FailedPrecondition` if the key is missing from the keyring.
pub(crate) async fn check(
    store: &Store,
    keys: Option<&EncryptionKeys>,
    context: &Context,
) -> Result<(), CommandFailure> {
    // Errors are ignored here, because the command itself reports damaged data better.
    let Ok(Some(id)) = context.within(newest_key(store)).await else { return Ok(()) };
    match keys {
        None => {
            let message = format!(
                "what is stored here is sealed by the key '{id}', and there is no keyring: it is shown as it is stored, \
                 and what is written is not sealed; give --keyring FILE"
            );
            failure::warn(&message, context.options.json);
            Ok(())
        }
        Some(keys) if keys.ring.contains(&id) => Ok(()),
        Some(keys) => {
            let file = keys.file.display();
            let message = format!(
                "what is stored here is sealed by the key '{id}', which is not in the keyring {file}; add it there, \
                 beside the current one"
            );
            Err(Error::new(ErrorKind::FailedPrecondition, message).into())
        }
    }
}

/// Returns the id of the key that encrypted the most recently updated session of the first app.
async fn newest_key(store: &Store) -> scratchbook::Result<Option<String>> {
    let Some(owner) = store.sessions.list_owners(None, 1).await?.into_iter().next() else { return Ok(None) };
    let newest = ListSessionsConfig::default().newest_first().with_page_size(1);
    let Some(session) = store.sessions.list_sessions(owner.app_name(), &newest).await?.sessions.into_iter().next()
    else {
        return Ok(None);
    };
    let last = GetSessionConfig::default().with_num_recent_events(1).without_state();
    let last = store.sessions.get_session(session.key(), &last).await?;
    Ok(last.as_ref().and_then(sealed_by).or_else(|| sealed_by(&session)))
}

/// Returns a warning if other users than the keyring's owner and group have access to it, or if the group may do more
/// than read it.
#[cfg(unix)]
fn too_open(file: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file)?;
    let mode = metadata.permissions().mode() & 0o777;
    let name = file.display();
    (mode & 0o037 != 0).then(|| format!("the keyring {name} is open to others, with mode {mode:04o}: chmod 600 {name}"))
}

#[cfg(not(unix))]
fn too_open(_: &Path) -> Option<String> {
    None
}
