//! Selects what `cargo xtask test --changed` runs: the packages with a changed file, and all packages that depend on
//! them. If only one store has changed, these are its own tests, and the library's in modules named after its database.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::command::{output, program, root};
use crate::step::Stop;
use crate::workspace::{Package, packages, with_dependents};

/// The branches from which changes are counted. The first branch that exists is used.
const MAIN: [&str; 2] = ["main", "origin/main"];

/// Files at the root of the repository that affect the build of every package.
const OF_EVERYTHING: [&str; 5] =
    ["Cargo.toml", "Cargo.lock", "clippy.toml", "rust-toolchain.toml", ".cargo/config.toml"];

/// The packages of stores, each with the modules of the library's tests that run on this store.
const STORES: [ChangedStore; 3] = [
    ChangedStore { package: "scratchbook-mysql", modules: &["mariadb", "mysql", "own_mariadb", "own_mysql"] },
    ChangedStore { package: "scratchbook-postgres", modules: &["postgres", "own_postgres"] },
    ChangedStore {
        package: "scratchbook-sqlite",
        modules: &["sqlite", "sqlite_behind_all_layers", "crash", "processes"],
    },
];

/// The changes since this branch left the main branch, committed or not.
#[derive(Debug, PartialEq)]
pub(crate) struct Changed {
    /// All changed files, as paths from the root of the repository.
    pub(crate) files: Vec<String>,
    /// The packages to check: those with a changed file, and all packages that depend on them.
    pub(crate) packages: BTreeSet<String>,
    /// The store, if only this store has changed.
    pub(crate) store: Option<ChangedStore>,
}

/// A store's package, with the modules whose tests run on the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChangedStore {
    pub(crate) package: &'static str,
    pub(crate) modules: &'static [&'static str],
}

impl Changed {
    pub(crate) fn find() -> Result<Self, Stop> {
        let (files, packages) = (changed_files()?, packages()?);
        let own = owners(&files, &packages);
        let store = only_store(&own);
        Ok(Self { files, packages: with_dependents(&packages, own), store })
    }

    /// Returns whether a file below a folder has changed.
    pub(crate) fn is_in(&self, folder: &str) -> bool {
        self.files.iter().any(|file| Path::new(file).starts_with(folder))
    }

    /// Returns whether a changed document has a Python program, which the tests of the Python package run.
    pub(crate) fn has_python_in_documents(&self) -> bool {
        let mut documents = self.files.iter().filter(|file| file.ends_with(".md"));
        documents.any(|file| fs::read_to_string(root().join(file)).is_ok_and(|text| text.contains("```python\n")))
    }
}

/// Returns the store that contains all changes, if there is one.
fn only_store(own: &BTreeSet<String>) -> Option<ChangedStore> {
    STORES.into_iter().find(|store| !own.is_empty() && own.iter().all(|name| name == store.package))
}

fn changed_files() -> Result<Vec<String>, Stop> {
    let base = MAIN.iter().find_map(|branch| {
        let found = program("git").args(["merge-base", "HEAD", branch]).output().ok()?;
        found.status.success().then(|| String::from_utf8_lossy(&found.stdout).trim().to_owned())
    });
    let base = base.ok_or_else(|| {
        Stop::Failed(format!("git knows no branch that this one was made from: neither {}", MAIN.join(" nor ")))
    })?;
    let tracked = output(program("git").args(["diff", "--name-only", "--no-renames", "-z", &base]))?;
    let new = output(program("git").args(["ls-files", "--others", "--exclude-standard", "-z"]))?;
    Ok(tracked.split_terminator('\0').chain(new.split_terminator('\0')).map(str::to_owned).collect())
}

/// Returns the packages to which files belong. A file belongs to the package whose folder contains it or, if there is
/// none, to each package with a source that names the file.
fn owners(files: &[String], packages: &[Package]) -> BTreeSet<String> {
    let every = || packages.iter().map(|package| package.name.clone());
    let mut found = BTreeSet::new();
    for file in files {
        if OF_EVERYTHING.contains(&file.as_str()) {
            return every().collect();
        }
        let path = root().join(file);
        let inside = packages.iter().filter(|package| path.starts_with(&package.folder));
        // If packages are nested, the file belongs to the innermost package.
        match inside.max_by_key(|package| package.folder.as_os_str().len()) {
            Some(package) => drop(found.insert(package.name.clone())),
            None => found.extend(packages.iter().filter(|p| names(&p.folder, file)).map(|p| p.name.clone())),
        }
    }
    found
}

/// Returns whether a source of a package names a file outside of the package, as `include_str!` does for the book.
fn names(folder: &Path, file: &str) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return names(&path, file);
        }
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        is_source && fs::read_to_string(&path).is_ok_and(|text| text.contains(&format!("/{file}\"")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners_of(file: &str) -> Vec<String> {
        owners(&[file.to_owned()], &packages().unwrap()).into_iter().collect()
    }

    #[test]
    fn a_file_belongs_to_the_package_whose_folder_it_is_in() {
        assert_eq!(owners_of("xtask/src/main.rs"), ["xtask"]);
        assert_eq!(owners_of("bindings/python/tests/test_urls.py"), ["scratchbook-python"]);
        assert_eq!(owners_of("crates/scratchbook-cli/src/removed.rs"), ["scratchbook-cli"]);
    }

    #[test]
    fn a_document_belongs_to_the_packages_that_include_it() {
        assert!(owners_of("docs/start.md").contains(&"scratchbook".to_owned()));
        assert_eq!(owners_of("CHANGELOG.md"), Vec::<String>::new());
    }

    #[test]
    fn the_lock_file_belongs_to_all() {
        assert_eq!(owners_of("Cargo.lock").len(), packages().unwrap().len());
    }

    #[test]
    fn one_store_that_alone_has_changed_is_found() {
        let found = |names: &[&str]| only_store(&names.iter().map(ToString::to_string).collect()).map(|s| s.package);
        assert_eq!(found(&["scratchbook-postgres"]), Some("scratchbook-postgres"));
        assert_eq!(found(&["scratchbook-postgres", "scratchbook-core"]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn stores_are_packages() {
        let packages = packages().unwrap();
        assert!(STORES.iter().all(|store| packages.iter().any(|package| package.name == store.package)));
    }

    #[test]
    fn a_document_with_a_python_program_is_a_part_of_the_python_package() {
        let of = |file: &str| Changed { files: vec![file.to_owned()], packages: BTreeSet::new(), store: None };
        assert!(of("docs/start.md").has_python_in_documents());
        assert!(!of("docs/schema.md").has_python_in_documents() && !of("removed.md").has_python_in_documents());
    }

    #[test]
    fn changes_are_found_whatever_they_are() {
        assert!(Changed::find().is_ok());
    }
}
