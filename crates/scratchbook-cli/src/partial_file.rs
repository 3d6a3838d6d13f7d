//! Files that are removed if they are not completed.

use std::fs;
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

    /// Keeps the file: it is complete.
    pub(crate) fn keep(mut self) {
        self.file = None;
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
