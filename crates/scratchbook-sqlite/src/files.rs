//! The files of a database, as they were when it was opened: whether their names still lead to them.
//!
//! SQLite goes on writing to a file that was moved, replaced or deleted, and a second name of a file has a log and a lock of
//! its own. Nothing here opens the database: closing it again would drop the locks that SQLite has on it in this process.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::locks::io_error;
use scratchbook_core::error::{Error, ErrorKind, Result};

/// Held while a database is made: closing what was made must not drop the locks of another who has opened it meanwhile.
static MAKING: Mutex<()> = Mutex::new(());

/// Which file a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    #[cfg(unix)]
    fn of(found: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { device: found.dev(), number: found.ino() }
    }

    /// Whether there is a file at all is what can be known here.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self { device: 0, number: 0 }
    }
}

/// A name, and the file it has led to.
#[derive(Debug)]
struct Named {
    path: PathBuf,
    identity: Identity,
}

impl Named {
    fn find(path: PathBuf) -> Result<Self> {
        let found = fs::metadata(&path).map_err(|e| io_error(&path, "the file cannot be found", e))?;
        Ok(Self { identity: Identity::of(&found), path })
    }

    /// Refuses what is another file by now.
    fn check(&self) -> Result<Metadata> {
        let what = match fs::metadata(&self.path) {
            Ok(found) if Identity::of(&found) == self.identity => return Ok(found),
            Ok(_) => "another file has its name now",
            Err(e) if e.kind() == io::ErrorKind::NotFound => "the file was deleted or moved away",
            Err(e) => return Err(io_error(&self.path, "the file cannot be looked at", e)),
        };
        let message = format!(
            "{}: {what} while the database was open; put it back, or open the database again. What was under way may be in \
             the file that was there",
            self.path.display()
        );
        Err(Error::new(ErrorKind::Unavailable, message).for_operator())
    }
}

/// The database with its log and its shared memory. The two are there as long as anybody has it open.
#[derive(Debug)]
pub(super) struct Files {
    database: Named,
    beside: Vec<Named>,
    /// Whether the database was cut off. What it has lost does not come back with its length.
    is_cut: AtomicBool,
}

impl Files {
    /// The files of a database that is open, by its real name, if it is the one that was found before it was opened; with
    /// these beside it.
    pub(super) fn of(found: Found, path: PathBuf, suffixes: &[&str]) -> Result<Self> {
        let database = Named { path, identity: found.0 };
        database.check()?;
        let beside = suffixes.iter().map(|suffix| Named::find(beside(&database.path, suffix)));
        Ok(Self { beside: beside.collect::<Result<_>>()?, database, is_cut: AtomicBool::new(false) })
    }

    /// The database's real name, by which every process finds the same lock.
    pub(super) fn path(&self) -> &Path {
        &self.database.path
    }

    /// Refuses what is not the database any more, before a read or a write; else the length of the database, in bytes.
    pub(super) fn check(&self) -> Result<u64> {
        if self.is_cut() {
            return Err(self.cut());
        }
        Ok(self.database.check()?.len())
    }

    /// The same for the files beside it, too: after a write, before it is acknowledged.
    pub(super) fn check_all(&self) -> Result<u64> {
        let length = self.check()?;
        self.beside.iter().try_for_each(|named| named.check().map(drop))?;
        Ok(length)
    }

    /// Whether the database was found to be cut off.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    /// The error for a database that was cut off, which it stays until it is opened again.
    pub(super) fn cut(&self) -> Error {
        self.is_cut.store(true, Ordering::Relaxed);
        let message = format!(
            "{}: the file has become shorter while the database was open, and pages of it are lost; restore a backup of it",
            self.database.path.display()
        );
        Error::new(ErrorKind::DataCorrupted, message).for_operator()
    }
}

/// How long the database was when it was last looked at, in pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    /// In the file. The others are in the log.
    pub(super) stored: u64,
    /// In all.
    pub(super) pages: u64,
}

impl Extent {
    /// Whether pages are gone since then. A database becomes shorter by itself only with fewer pages, as `VACUUM` leaves it.
    pub(super) fn is_cut_to(self, now: Self) -> bool {
        now.stored < self.stored && now.pages >= self.pages.max(self.stored)
    }
}

/// The file that a database's name led to before it was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found(Identity);

/// Makes the database if it is missing, for its owner alone, and refuses a file that has another name, too.
pub(super) fn find_or_make(path: &Path) -> Result<Found> {
    {
        let _one = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        if !path.exists() {
            let made = private().write(true).create(true).truncate(false).open(path);
            made.map_err(|e| io_error(path, "the file cannot be made", e))?;
        }
    }
    let real = fs::canonicalize(path).map_err(|e| io_error(path, "the file cannot be found", e))?;
    let found = fs::metadata(&real).map_err(|e| io_error(&real, "the file cannot be found", e))?;
    check_names(&real, &found)?;
    Ok(Found(Identity::of(&found)))
}

/// Who opens a file by another name has another log and another lock, and each overwrites the other's pages.
fn check_names(path: &Path, found: &Metadata) -> Result<()> {
    let refused = |what: &str| {
        let message = format!("{}: {what}", path.display());
        Err(Error::precondition(message).for_operator())
    };
    if names(found) > 1 {
        return refused(
            "the file has a second name (a hard link), whose log and lock would be others; remove one of them",
        );
    }
    if is_mounted(path) {
        return refused("the file is mounted by itself, without its log and its lock; mount the folder that it is in");
    }
    Ok(())
}

#[cfg(unix)]
fn names(found: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    found.nlink()
}

#[cfg(not(unix))]
fn names(_: &Metadata) -> u64 {
    1
}

/// Whether a file system is mounted on this very file.
fn is_mounted(path: &Path) -> bool {
    let Some(path) = path.to_str() else {
        return false;
    };
    // On Linux alone; the fifth field is the place, with some characters as octal numbers.
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().filter_map(|line| line.split(' ').nth(4)).any(|place| is_place(place, path))
}

fn is_place(place: &str, path: &str) -> bool {
    let escaped = [('\\', "\\134"), (' ', "\\040"), ('\t', "\\011"), ('\n', "\\012")];
    place == escaped.iter().fold(path.to_owned(), |path, (c, code)| path.replace(*c, code))
}

/// A new file is its owner's alone.
pub(super) fn private() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "there are no modes"))]
    let mut options = File::options();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

/// Opens a file beside the database, for reading and writing. A new one is for those whom the database is for, as SQLite does
/// with its own.
pub(super) fn open_beside(database: &Path, path: &Path) -> io::Result<File> {
    let made = private().read(true).write(true).create_new(true).open(path);
    match made {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => File::options().read(true).write(true).open(path),
        Ok(file) => {
            // If it cannot be given to others it stays the owner's.
            if let Ok(found) = fs::metadata(database) {
                let _ = file.set_permissions(found.permissions());
            }
            Ok(file)
        }
        failed => failed,
    }
}

/// A file's name with something behind it.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::{Extent, is_place};

    #[test]
    fn a_mounted_file_is_found_by_its_place() {
        assert!(is_place("/data/agents.db", "/data/agents.db"));
        assert!(is_place("/my\\040data/a\\134b.db", "/my data/a\\b.db"));
        assert!(!is_place("/data", "/data/agents.db"));
    }

    #[test]
    fn a_file_becomes_shorter_with_fewer_pages_or_it_was_cut() {
        let extent = |stored, pages| Extent { stored, pages };
        assert!(extent(2, 2).is_cut_to(extent(0, 2)));
        assert!(extent(2, 2).is_cut_to(extent(1, 3)));
        assert!(!extent(2, 2).is_cut_to(extent(2, 3)));
        assert!(!extent(2, 2).is_cut_to(extent(1, 1)));
        // Others had made it longer since its pages were counted.
        assert!(!extent(20, 10).is_cut_to(extent(15, 15)));
    }
}
