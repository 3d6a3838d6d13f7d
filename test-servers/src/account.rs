//! The user that a server runs as. PostgreSQL refuses to run as root, so root starts it as a user with fewer rights.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::{Error, Result};

/// The user that a server runs as: our own user, or another user if we are root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerAccount {
    other: Option<(u32, u32)>,
}

impl ServerAccount {
    /// Returns our own user.
    pub(crate) fn own_user() -> Self {
        Self { other: None }
    }

    /// Returns whether this process runs as root.
    pub(crate) fn we_are_root() -> Result<bool> {
        Ok(id(&["-u"])? == Some(0))
    }

    /// Returns our own user if we are not root, or else the first of these users that exists.
    pub(crate) fn unprivileged(names: &[&str]) -> Result<Self> {
        if !Self::we_are_root()? {
            return Ok(Self::own_user());
        }
        for name in names {
            if let (Some(user), Some(group)) = (id(&["-u", name])?, id(&["-g", name])?) {
                return Ok(Self { other: Some((user, group)) });
            }
        }
        Err(Error::new(format!("no user to run a server as: root may not, and none of {} exists", names.join(", "))))
    }

    /// Lets a command run as this user, with only this user's group.
    pub(crate) fn apply(&self, command: &mut Command) {
        if let Some((user, group)) = self.other {
            command.uid(user).gid(group);
        }
    }

    /// Makes this user the owner of a file or a folder of ours.
    pub(crate) fn own(&self, path: &Path) -> Result<()> {
        let Some((user, group)) = self.other else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(user), Some(group)).map_err(|error| Error::io(path.display(), &error))
    }
}

fn id(arguments: &[&str]) -> Result<Option<u32>> {
    let output = Command::new("id").args(arguments).output().map_err(|error| Error::io("id", &error))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse().ok())
}
