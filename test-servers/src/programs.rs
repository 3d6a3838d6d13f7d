//! Finds the programs of the database servers.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of a program, in PATH or in a folder where packages put servers.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/libexec"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(usual);
    folders.find_map(|folder| Some(folder.join(program)).filter(|file| file.is_file()))
}

/// Returns the folder with all programs of one PostgreSQL version: the version in PATH, or else the newest package.
pub(crate) fn postgres() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(packages()).chain(pg_config());
    folders.find_map(|folder| {
        // If `initdb` is a link, the other programs of its version are in the folder of the link's target.
        let folder = folder.join("initdb").canonicalize().ok()?.parent()?.to_path_buf();
        folder.join("postgres").is_file().then_some(folder)
    })
}

/// Returns the folder of libraries below `lib` in which the loader of programs is, and the loader.
pub(crate) fn loader_in(lib: &Path) -> Option<(PathBuf, PathBuf)> {
    let is_loader =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"));
    std::fs::read_dir(lib).ok()?.flatten().find_map(|folder| {
        let files = std::fs::read_dir(folder.path()).ok()?;
        let loader = files.flatten().map(|entry| entry.path()).find(is_loader)?;
        Some((folder.path(), loader))
    })
}

fn packages() -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = Vec::new();
    for parent in ["/usr/lib/postgresql", "/usr/lib64/postgresql", "/usr/local/lib/postgresql"] {
        let Ok(entries) = std::fs::read_dir(parent) else { continue };
        versions.extend(entries.flatten().filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        }));
    }
    versions.sort();
    versions.into_iter().rev().map(|(_, folder)| folder).collect()
}

fn pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(Path::new(text.trim()).to_path_buf())
}
