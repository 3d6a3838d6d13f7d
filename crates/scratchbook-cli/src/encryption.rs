//! The keyring that a database is sealed by, and what is said if one is missing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use scratchbook::{
    Error, ErrorKind, GetSessionConfig, Keyring, Limits, ListSessionsConfig, PlainValues, SessionService, Store,
    WithEncryption, sealed_by,
};

use crate::args::Plain;
use crate::context::Context;
use crate::failure::{self, Failure};

/// Sessions that are sealed.
pub(crate) type EncryptedSessions = WithEncryption<Arc<dyn SessionService>>;

/// What a database is sealed by.
#[derive(Debug)]
pub(crate) struct Encryption {
    ring: Keyring,
    plain: PlainValues,
    file: PathBuf,
}

impl Encryption {
    /// The keys that are asked for, if any are.
    pub(crate) fn of(context: &Context) -> Result<Option<Self>, Failure> {
        let Some(file) = &context.options.keyring else {
            if context.options.plain_values.is_some() {
                let message =
                    "--plain-values says what happens beside sealed values; name the keys with --keyring FILE";
                return Err(Error::new(ErrorKind::InvalidArgument, message).into());
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

    /// The id of the key that seals what is written.
    pub(crate) fn current(&self) -> String {
        self.ring.current().to_owned()
    }

    /// A store that is sealed, with limits on what is given.
    pub(crate) fn around(&self, store: Store, limits: Limits) -> Store {
        let sessions = self.sessions(store.sessions, limits);
        let artifacts = WithEncryption::new_with(store.artifacts, self.ring.clone(), self.plain).with_limits(limits);
        Store::of(Arc::new(sessions), Arc::new(artifacts))
    }

    /// Sessions that are sealed.
    pub(crate) fn sessions(&self, sessions: Arc<dyn SessionService>, limits: Limits) -> EncryptedSessions {
        WithEncryption::new_with(sessions, self.ring.clone(), self.plain).with_limits(limits)
    }
}

/// The error of a command that needs a keyring.
pub(crate) fn no_keyring() -> Error {
    let message = "say by which keys: --keyring FILE, with the new one as its current key and the old ones beside it";
    Error::new(ErrorKind::InvalidArgument, message)
}

/// Looks at what a database has in it: without a keyring it says if that looks sealed.
///
/// This is against mistakes and proves nothing. One session is looked at, and a user of a database without keys can write
/// a text that looks sealed; so it is only said, and nobody can keep a server from starting by such a text.
///
/// # Errors
///
/// `FailedPrecondition` names a key that is missing from the keyring.
pub(crate) async fn check(store: &Store, keys: Option<&Encryption>, context: &Context) -> Result<(), Failure> {
    // Whatever is wrong with what is stored, the command itself says better.
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

/// The id of the key that has sealed the session written to last, of the first app.
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

/// What is said of a keyring that others than its owner and its group can read.
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
