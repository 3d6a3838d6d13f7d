//! The token that a server makes for itself at its first start, for example in a new container.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use scratchbook::{Error, ErrorKind};
use scratchbook_server::{NewToken, Right};
use tempfile::NamedTempFile;

use crate::args::AccessArgs;
use crate::partial_file::sync_folder_of;

/// The name of the token in logs.
const NAME: &str = "first";

/// Requires the server's own token if the options ask for one and name no other login. Returns the file with the token.
///
/// # Errors
///
/// If the folder does not exist, or a file in it cannot be written.
pub(super) fn require(args: &mut AccessArgs) -> Result<Option<PathBuf>, Error> {
    let Some(folder) = args.make_token.as_deref().filter(|_| !args.has_login()) else { return Ok(None) };
    let (tokens, token) = (folder.join("tokens.toml"), folder.join("token"));
    make(&tokens, &token).map_err(|e| {
        let message = format!("no token can be made in '{}'; name a folder that can be written", folder.display());
        Error::new(kind(&e), message).with_source(e)
    })?;
    args.tokens = Some(tokens);
    Ok(token.is_file().then_some(token))
}

/// Writes both files, unless an earlier start has done so. If several servers start in one folder, the first one makes
/// the token.
fn make(tokens: &Path, token: &Path) -> io::Result<()> {
    let is_complete = |length: u64| length > 0;
    if tokens.metadata().is_ok_and(|meta| is_complete(meta.len())) {
        // Nothing is opened for writing, because the file system may be read-only.
        return Ok(());
    }
    let mut file = private(OpenOptions::new().append(true).create(true)).open(tokens)?;
    file.lock()?;
    if is_complete(file.metadata()?.len()) {
        return Ok(());
    }
    let made = NewToken::new(NAME).with_rights(Right::ALL).make().map_err(io::Error::other)?;
    let folder = token.parent().unwrap_or(Path::new("."));
    // Only the owner can read this file, as every temporary file.
    let mut secret = NamedTempFile::new_in(folder)?;
    writeln!(secret, "{}", made.secret())?;
    secret.as_file().sync_all()?;
    secret.persist(token)?;
    // The entry is written last. It makes the token valid and keeps later starts from making another one.
    file.write_all(made.entry().as_bytes())?;
    file.sync_all()?;
    // Without this, a power failure may remove both files, and the next start makes new ones.
    sync_folder_of(token);
    tracing::info!(file = %token.display(), "made a token for this server; it is in this file");
    Ok(())
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

fn kind(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::PermissionDenied,
        io::ErrorKind::StorageFull => ErrorKind::ResourceExhausted,
        _ => ErrorKind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::thread;

    use super::*;

    #[test]
    fn of_servers_that_start_at_once_one_makes_the_token() {
        let folder = tempfile::tempdir().unwrap();
        let (tokens, token) = (folder.path().join("tokens.toml"), folder.path().join("token"));
        let start = || {
            make(&tokens, &token).unwrap();
            fs::read_to_string(&token).unwrap() + &fs::read_to_string(&tokens).unwrap()
        };
        let seen: BTreeSet<_> = thread::scope(|scope| {
            let starts: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
            starts.into_iter().map(|start| start.join().unwrap()).collect()
        });
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert_eq!(fs::read_to_string(&tokens).unwrap().matches("[[token]]").count(), 1);
        #[cfg(unix)]
        for file in [&tokens, &token] {
            let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
    }
}
