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
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
}

impl Drop for PartialFile<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file {
            let _ = fs::remove_file(file);
            // SQLite creates this file while it fills a copy.
            let mut journal = file.as_os_str().to_owned();
            journal.push("-journal");
            let _ = fs::remove_file(journal);
        }
    }
}
