//! Removes files that were not completed, and makes the names of completed files durable.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;

/// The length of a UUID as text.
const UUID_LENGTH: usize = 36;

/// A file that is removed on drop, such as after Ctrl-C, unless [`keep`](Self::keep) was called.
#[derive(Debug)]
pub(crate) struct PartialFile<'a> {
    file: Option<&'a Path>,
}

impl<'a> PartialFile<'a> {
    /// Guards a file that will be created. A file that exists already is not removed.
    pub(crate) fn new(file: &'a Path) -> Self {
        Self { file: (!file.exists()).then_some(file) }
    }

    /// Keeps the file: it is complete. Its name is then durable, too.
    pub(crate) fn keep(mut self) {
        if let Some(file) = self.file.take() {
            sync_folder_of(file);
        }
    }
}

/// Makes the name of a new file durable. If the system or the file system cannot do this, a power failure may remove
/// the file.
pub(crate) fn sync_folder_of(file: &Path) {
    if cfg!(unix) {
        let _ = File::open(folder_of(file)).and_then(|folder| folder.sync_all());
    }
}

impl Drop for PartialFile<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file {
            let _ = fs::remove_file(file);
            // A copy of a database has another name until it is complete, and SQLite keeps a journal beside it.
            let mut begin = file.file_name().unwrap_or_default().to_owned();
            begin.push("-partial-");
            for entry in fs::read_dir(folder_of(file)).into_iter().flatten().flatten() {
                if is_partial(&entry.file_name(), &begin) {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }
}

/// Whether a name is this beginning and a UUID, or that of its journal.
fn is_partial(name: &OsStr, begin: &OsStr) -> bool {
    let Some(rest) = name.as_encoded_bytes().strip_prefix(begin.as_encoded_bytes()) else { return false };
    let id = rest.strip_suffix(b"-journal").unwrap_or(rest);
    id.len() == UUID_LENGTH && id.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_completed_is_removed_under_every_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("copy.db");
        let guard = PartialFile::new(&file);
        let partial = "copy.db-partial-01890dd5-ea3f-7746-8f5e-a1b2c3d4e5f6";
        let journal = format!("{partial}-journal");
        for name in ["copy.db", partial, &journal, "copy.db-partial-mine", "copy.db2"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        drop(guard);
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["copy.db-partial-mine", "copy.db2"]);
    }
}
