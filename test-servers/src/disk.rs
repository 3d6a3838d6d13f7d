//! A disk that can become full: a file system in memory, whose size can be changed while it is used.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::statvfs;
use tempfile::TempDir;

use crate::{Error, Result};

/// The size of the disk while it is not full. A file system in memory takes only as much memory as its files.
const SIZE: u64 = 4 << 30;

/// A disk that can become full.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
    /// The temporary folder, if the disk has one.
    _folder: Option<TempDir>,
}

impl SmallDisk {
    /// Mounts the disk on a temporary folder.
    ///
    /// # Errors
    ///
    /// The user is not allowed to mount file systems. Only root is.
    pub fn mount() -> Result<Self> {
        let folder = tempfile::tempdir().map_err(io)?;
        mount(&format!("size={SIZE}"), folder.path())?;
        Ok(Self { path: folder.path().to_owned(), _folder: Some(folder) })
    }

    /// Moves a folder to a disk of its own, which is mounted in its place. Nothing may use the folder meanwhile.
    ///
    /// # Errors
    ///
    /// The user is not allowed to mount file systems, or the folder cannot be copied.
    pub fn under(folder: &Path) -> Result<Self> {
        let old = folder.with_extension("old");
        fs::rename(folder, &old).map_err(io)?;
        fs::create_dir(folder).map_err(io)?;
        mount(&format!("size={SIZE}"), folder)?;
        let disk = Self { path: folder.to_owned(), _folder: None };
        // This also copies who owns the folder.
        succeed(Command::new("cp").arg("--archive").arg(old.join(".")).arg(folder))?;
        fs::remove_dir_all(&old).map_err(io)?;
        Ok(disk)
    }

    /// Returns the folder on which the disk is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the disk as small as its content, so that nothing more can be written.
    ///
    /// # Errors
    ///
    /// The size cannot be changed.
    pub fn fill(&self) -> Result<()> {
        // Other processes write meanwhile, so the content may be larger than the computed size when the size is set.
        for _ in 0..100 {
            let space = statvfs(self.path()).map_err(|error| io(error.into()))?;
            let used = (space.f_blocks - space.f_bfree) * space.f_frsize;
            if mount(&format!("remount,size={used}"), self.path()).is_ok() {
                return Ok(());
            }
        }
        Err(Error::new("the disk could not be filled"))
    }

    /// Gives the disk its size back.
    ///
    /// # Errors
    ///
    /// The size cannot be changed.
    pub fn empty(&self) -> Result<()> {
        mount(&format!("remount,size={SIZE}"), self.path())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // If a process still uses the disk, the disk stays until the process ends, but the folder is free at once.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
    }
}

fn mount(options: &str, folder: &Path) -> Result<()> {
    let mut command = Command::new("mount");
    succeed(command.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(folder))
}

fn io(error: std::io::Error) -> Error {
    Error::io("a disk that can become full", &error)
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(io)?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::new(format!("a disk that can become full: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_takes_nothing_until_it_is_emptied() {
        let Ok(disk) = SmallDisk::mount() else {
            println!("LEFT OUT: mounting a file system takes root");
            return;
        };
        let path = disk.path().join("a");
        std::fs::write(&path, [1; 100_000]).unwrap();
        disk.fill().unwrap();
        assert!(std::fs::write(disk.path().join("b"), [1; 100_000]).is_err());
        disk.empty().unwrap();
        std::fs::write(disk.path().join("b"), [1; 100_000]).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), [1; 100_000]);
    }
}
