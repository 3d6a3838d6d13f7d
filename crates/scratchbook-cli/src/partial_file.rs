//! Removes files that were not completed, and makes the names of completed files durable.

use std::fs::{self, File};
use std::path::Path;

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
                if entry.file_name().as_encoded_bytes().starts_with(begin.as_encoded_bytes()) {
                    let _ = fs::remove_file(entry.path());
                }
            }
        }
    }
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
        for name in ["copy.db", "copy.db-partial-1", "copy.db-partial-1-journal", "other.db", "copy.db2"] {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        drop(guard);
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["copy.db2", "other.db"]);
    }
}
