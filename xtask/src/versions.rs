//! Runs an older build of the command beside this one, on one database.

use std::path::PathBuf;

use crate::build::checked;
use crate::command::{cargo, output, program, root, run};
use crate::servers;
use crate::step::Stop;

/// The environment variable that names the commit of the older build.
const COMMIT: &str = "SCRATCHBOOK_OLD_COMMIT";
/// The binary of the older build, for the tests.
const BINARY: &str = "SCRATCHBOOK_OLD_BINARY";
const TREE: &str = "target/old/tree";
const TARGET: &str = "target/old/target";

/// Runs the step `versions`.
pub(crate) fn beside_old() -> Result<(), Stop> {
    let binary = match std::env::var_os(BINARY).filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => build(&old_commit()?)?,
    };
    let installed = servers::install();
    let mut tests = checked(&["test", "--workspace", "--all-features", "--test", "cli", "--", "versions::"]);
    for module in servers::missing() {
        tests.args(["--skip", &format!("{module}::")]);
    }
    run(tests.env(BINARY, binary))?;
    installed
}

/// Returns the commit that the environment names, or else the newest tag. Before the first version, there is none: builds
/// have no tables in common.
fn old_commit() -> Result<String, Stop> {
    if let Ok(commit) = std::env::var(COMMIT)
        && !commit.is_empty()
    {
        return Ok(commit);
    }
    let tags = output(program("git").args(["tag", "--list", "v*", "--sort=-creatordate"]))?;
    let missing = || Stop::LeftOut(format!("no version has been tagged yet, and {COMMIT} names no commit"));
    tags.lines().next().map(str::to_owned).ok_or_else(missing)
}

/// Builds the command of a commit in its own work tree.
fn build(commit: &str) -> Result<PathBuf, Stop> {
    let known = program("git").args(["cat-file", "-e", &format!("{commit}^{{commit}}")]).output();
    if !known.is_ok_and(|known| known.status.success()) {
        return Err(Stop::LeftOut(format!("this clone has no commit {commit}; fetch the whole history")));
    }
    // An interrupted run may have left a work tree, possibly without its folder.
    run(program("git").args(["worktree", "prune"]))?;
    if root().join(TREE).is_dir() {
        run(program("git").args(["-C", TREE, "checkout", "--quiet", "--force", "--detach", commit]))?;
    } else {
        run(program("git").args(["worktree", "add", "--quiet", "--force", "--detach", TREE, commit]))?;
    }
    let manifest = output(program("git").args(["show", &format!("{commit}:crates/scratchbook-cli/Cargo.toml")]))?;
    let mut build = cargo(&["build", "--package", "scratchbook-cli", "--bin", "scratchbook"]);
    build.args(["--features", &features(&manifest).join(",")]);
    run(build.current_dir(root().join(TREE)).env("CARGO_TARGET_DIR", root().join(TARGET)))?;
    Ok(root().join(TARGET).join("debug/scratchbook"))
}

/// Returns the features that add stores to the command. A command from before these features has every store.
fn features(manifest: &str) -> Vec<&'static str> {
    let has = |name: &&str| manifest.lines().any(|line| line.starts_with(&format!("{name} = ")));
    ["mysql", "postgres"].into_iter().filter(has).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_features_only_of_commands_that_have_these() {
        let manifest = std::fs::read_to_string(root().join("crates/scratchbook-cli/Cargo.toml")).unwrap();
        assert_eq!(features(&manifest), ["mysql", "postgres"]);
        assert!(features("[features]\notel = []\n\n[dependencies]\nmysql_async = \"1\"").is_empty());
    }
}
