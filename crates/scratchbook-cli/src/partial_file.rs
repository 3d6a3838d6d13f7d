//! Files that are being written.

use std::fs;
use std::path::Path;

/// A file that is removed again unless it is finished: Ctrl-C ends the command in the midst of it.
#[derive(Debug)]
pub(crate) struct PartialFile<'a> {
    file: Option<&'a Path>,
}

impl<'a> PartialFile<'a> {
    /// A file that is about to be made; one that is there already stays.
    pub(crate) fn new(file: &'a Path) -> Self {
        Self { file: (!file.exists()).then_some(file) }
    }

    /// It is finished.
    pub(crate) fn keep(mut self) {
        self.file = None;
    }
}

impl Drop for PartialFile<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.file {
            let _ = fs::remove_file(file);
            // SQLite's, while it fills a copy.
            let mut journal = file.as_os_str().to_owned();
            journal.push("-journal");
            let _ = fs::remove_file(journal);
        }
    }
}
