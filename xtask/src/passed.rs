//! The steps that have passed on this commit, so that `cargo xtask full` can be done in several goes.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::command::{program, root};

/// A file with the commit in its first line, and a passed step in each other line.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    path: PathBuf,
    /// The commit, if the work tree has no changes beside it.
    commit: Option<String>,
}

impl Passed {
    /// Returns the steps of this commit.
    pub(crate) fn here() -> Self {
        let printed = |words: &[&str]| {
            let output = program("git").args(words).output().ok().filter(|output| output.status.success())?;
            Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let is_clean = printed(&["status", "--porcelain"]).is_some_and(|changes| changes.is_empty());
        let commit = if is_clean { printed(&["rev-parse", "HEAD"]) } else { None };
        Self { path: root().join("target/passed-steps"), commit }
    }

    /// Returns a file that records nothing.
    #[cfg(test)]
    pub(crate) fn nowhere() -> Self {
        Self { path: PathBuf::new(), commit: None }
    }

    /// Returns whether a step has passed on this commit.
    pub(crate) fn contains(&self, step: &str) -> bool {
        self.lines().iter().any(|line| line == step)
    }

    /// Records that a step has passed. Does nothing if the work tree has changes.
    pub(crate) fn add(&self, step: &str) {
        let Some(commit) = &self.commit else { return };
        let mut lines = self.lines();
        if lines.is_empty() {
            // The file is of another commit, or is not there.
            lines.push(commit.clone());
        }
        if !lines.iter().any(|line| line == step) {
            lines.push(step.to_owned());
        }
        if let Err(error) = write(&self.path, &lines) {
            println!("{}: {error}", self.path.display());
        }
    }

    /// Returns the lines of the file; none if it is of another commit.
    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if self.commit.is_some() && lines.first() == self.commit.as_ref() { lines } else { Vec::new() }
    }
}

fn write(path: &Path, lines: &[String]) -> std::io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let mut file = fs::File::create(path)?;
    lines.iter().try_for_each(|line| writeln!(file, "{line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_steps_belong_to_their_commit_and_to_no_changed_tree() {
        let folder = tempfile::tempdir().unwrap();
        let of = |commit: Option<&str>| Passed { path: folder.path().join("a"), commit: commit.map(str::to_owned) };
        let first = of(Some("1"));
        first.add("format");
        first.add("tests");
        first.add("tests");
        assert!(first.contains("format") && first.contains("tests") && !first.contains("1x"));
        of(None).add("rules");
        assert!(!of(None).contains("format") && !of(Some("2")).contains("format") && !first.contains("rules"));
        of(Some("2")).add("rules");
        assert!(of(Some("2")).contains("rules") && !first.contains("format"));
    }
}
