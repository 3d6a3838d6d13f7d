//! Checks that the names of an open database's files still lead to the files that were opened.
//!
//! SQLite continues to write to a file after it was moved, replaced or deleted, and opening a file by a second name
//! uses another log and lock. This module never opens the database file: closing the file again would drop the locks
//! that SQLite holds on it in this process.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use super::locks::io_error;
use scratchbook_core::error::{Error, ErrorKind, Result};

/// Held while a database file is created. Closing the new file must not drop the locks of another thread that has
/// opened it in the meantime.
static MAKING: Mutex<()> = Mutex::new(());

/// The identity of a file, which does not depend on its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    number: u64,
}

impl FileIdentity {
    #[cfg(unix)]
    fn of(found: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { device: found.dev(), number: found.ino() }
    }

    /// This system has no file identity, so all that can be checked is whether a file exists.
    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Self {
        Self { device: 0, number: 0 }
    }
}

/// A name, and the file that it led to.
#[derive(Debug)]
struct NamedFile {
    path: PathBuf,
    identity: FileIdentity,
}

impl NamedFile {
    fn find(path: PathBuf) -> Result<Self> {
        let found = fs::metadata(&path).map_err(|e| io_error(&path, "the file cannot be found", e))?;
        Ok(Self { identity: FileIdentity::of(&found), path })
    }

    /// Fails if the name now leads to another file, or to no file.
    fn check(&self) -> Result<Metadata> {
        let what = match fs::metadata(&self.path) {
            Ok(found) if FileIdentity::of(&found) == self.identity => return Ok(found),
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

/// How a database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileAccess {
    /// With SQLite's log and locks beside it, so that others can write at the same time.
    Shared,
    /// As a file that nobody changes, with no files beside it.
    Immutable,
}

/// The database file with its log and its shared memory, which both exist as long as the database is open.
#[derive(Debug)]
pub(super) struct DatabaseFiles {
    database: NamedFile,
    beside: Vec<NamedFile>,
    /// The state of an immutable database when it was opened.
    unchanged: Option<FileState>,
    /// Whether the database was truncated. It stays truncated, because a file that grows again does not get its
    /// lost data back.
    is_cut: AtomicBool,
}

impl DatabaseFiles {
    /// Returns the files of an open database, by its real name. Fails if the name no longer leads to the file
    /// `expected`.
    pub(super) fn of(expected: ExpectedFile, path: PathBuf, suffixes: &[&str]) -> Result<Self> {
        let database = NamedFile { path, identity: expected.0 };
        database.check()?;
        let beside = suffixes.iter().map(|suffix| NamedFile::find(beside(&database.path, suffix)));
        Ok(Self { beside: beside.collect::<Result<_>>()?, database, unchanged: None, is_cut: AtomicBool::new(false) })
    }

    /// Returns the file of an immutable database, in the state that it had before it was opened.
    pub(super) fn immutable(expected: ExpectedFile, path: PathBuf, state: FileState) -> Result<Self> {
        let files = Self { unchanged: Some(state), ..Self::of(expected, path, &[])? };
        files.check_unchanged()?;
        Ok(files)
    }

    /// Returns how the database is opened.
    pub(super) fn access(&self) -> FileAccess {
        if self.unchanged.is_some() { FileAccess::Immutable } else { FileAccess::Shared }
    }

    /// Fails if an immutable database has changed or somebody has begun to write to it; called before and after each
    /// read.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let Some(state) = &self.unchanged else { return Ok(()) };
        if FileState::of(self.path())? == *state && log_of(self.path()).is_none() {
            return Ok(());
        }
        let message = format!(
            "{} is written by others while it is open for reading alone in a folder that may not be written, where \
             reading and writing cannot be coordinated; open it again later, or open a copy",
            self.path().display()
        );
        Err(Error::new(ErrorKind::Unavailable, message).for_operator())
    }

    /// Returns the database's real name, through which every process finds the same lock.
    pub(super) fn path(&self) -> &Path {
        &self.database.path
    }

    /// Fails if the file was replaced or truncated; called before each read and write. Returns the length of the
    /// file, in bytes.
    pub(super) fn check(&self) -> Result<u64> {
        if self.is_cut() {
            return Err(self.cut());
        }
        self.check_unchanged()?;
        Ok(self.database.check()?.len())
    }

    /// Checks the files beside the database as well; called after a write, before it is acknowledged.
    pub(super) fn check_all(&self) -> Result<u64> {
        let length = self.check()?;
        self.beside.iter().try_for_each(|named| named.check().map(drop))?;
        Ok(length)
    }

    /// Returns whether the database was found truncated.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    /// Returns the error for a truncated database. Every call fails in this way until the database is opened again.
    pub(super) fn cut(&self) -> Error {
        self.is_cut.store(true, Ordering::Relaxed);
        let message = format!(
            "{}: the file has become shorter while the database was open, and pages of it are lost; restore a backup of it",
            self.database.path.display()
        );
        Error::new(ErrorKind::DataCorrupted, message).for_operator()
    }
}

/// The properties of a file that change whenever it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    length: u64,
    modified: SystemTime,
}

impl FileState {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let found = fs::metadata(path).and_then(|found| Ok(Self { length: found.len(), modified: found.modified()? }));
        found.map_err(|e| io_error(path, "the file cannot be looked at", e))
    }
}

/// Returns the log or the journal beside a database, if there is one. It may have commits that the database file lacks.
pub(super) fn log_of(path: &Path) -> Option<PathBuf> {
    let logs = ["-wal", "-journal"].map(|suffix| beside(path, suffix));
    logs.into_iter().find(|log| fs::metadata(log).is_ok_and(|found| found.len() > 0))
}

/// The size of the database when it was last checked, in pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    /// Pages in the file itself. The others are in the log.
    pub(super) stored: u64,
    /// All pages, including those in the log.
    pub(super) pages: u64,
}

impl Extent {
    /// Returns whether pages were lost between this state and `now`. SQLite shortens a database file only when the
    /// database has fewer pages, as after `VACUUM`.
    pub(super) fn is_cut_to(self, now: Self) -> bool {
        now.stored < self.stored && now.pages >= self.pages.max(self.stored)
    }
}

/// The file that a database's name led to before it was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedFile(FileIdentity);

/// Creates the database file if it is missing, readable only by its owner. Refuses a file that has a second name.
pub(super) fn find_or_make(path: &Path) -> Result<ExpectedFile> {
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
    Ok(ExpectedFile(FileIdentity::of(&found)))
}

/// Refuses a file with a second name. A process that opens it by that name has another log and another lock, and
/// the two processes overwrite each other's pages.
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

/// Returns whether this file itself is a mount point.
fn is_mounted(path: &Path) -> bool {
    let Some(path) = path.to_str() else {
        return false;
    };
    // Only Linux has this file. The fifth field of a line is the mount point, with some characters escaped as octal
    // numbers.
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().filter_map(|line| line.split(' ').nth(4)).any(|place| is_place(place, path))
}

fn is_place(place: &str, path: &str) -> bool {
    let escaped = [('\\', "\\134"), (' ', "\\040"), ('\t', "\\011"), ('\n', "\\012")];
    place == escaped.iter().fold(path.to_owned(), |path, (c, code)| path.replace(*c, code))
}

/// Returns options that create a file that only its owner can access.
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

/// Opens a file beside the database for reading and writing. A new file gets the permissions of the database, as
/// SQLite's own files do.
pub(super) fn open_beside(database: &Path, path: &Path) -> io::Result<File> {
    let made = private().read(true).write(true).create_new(true).open(path);
    match made {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => File::options().read(true).write(true).open(path),
        Ok(file) => {
            // If the permissions cannot be copied, the file stays private to its owner.
            if let Ok(found) = fs::metadata(database) {
                let _ = file.set_permissions(found.permissions());
            }
            Ok(file)
        }
        failed => failed,
    }
}

/// Makes the names of the files beside a file durable. SQLite does this for the database itself.
pub(super) fn sync_folder_of(path: &Path) -> Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some file systems cannot sync a folder.
        Err(e) if !matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Err(io_error(folder, "the folder cannot be synced", e))
        }
        _ => Ok(()),
    }
}

/// A file's name with a suffix.
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
        // Another process had made the database longer since its pages were counted.
        assert!(!extent(20, 10).is_cut_to(extent(15, 15)));
    }
}
