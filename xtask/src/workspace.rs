//! The packages of the workspace, from `cargo metadata`. No step has a list of its own.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use crate::command::{cargo, output};
use crate::step::Stop;

/// One package of the workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The folder with its `Cargo.toml`.
    pub(crate) folder: PathBuf,
    /// The package's features, except `default` and those that only name an optional dependency.
    pub(crate) features: Vec<String>,
    /// The names of its examples.
    pub(crate) examples: Vec<String>,
    /// Whether others can depend on it.
    pub(crate) is_library: bool,
    /// Whether programs in other languages load it as a library.
    is_loaded: bool,
    /// The packages on which it depends, also for its build and its tests.
    dependencies: Vec<String>,
}

impl Package {
    /// Returns the target to build, as an argument of Cargo.
    pub(crate) fn target(&self) -> &'static str {
        if self.is_library || self.is_loaded { "--lib" } else { "--bins" }
    }
}

/// Returns all packages of the workspace, in Cargo's order.
pub(crate) fn packages() -> Result<Vec<Package>, Stop> {
    let text = output(&mut cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Value =
        serde_json::from_str(&text).map_err(|error| Stop::Failed(format!("cargo metadata: {error}")))?;
    Ok(items(&metadata["packages"]).map(package).collect())
}

/// Returns these packages and all packages that depend on them, directly or not.
pub(crate) fn with_dependents(packages: &[Package], mut chosen: BTreeSet<String>) -> BTreeSet<String> {
    loop {
        let depends = |package: &&Package| package.dependencies.iter().any(|name| chosen.contains(name));
        let more: Vec<_> = packages.iter().filter(depends).map(|package| package.name.clone()).collect();
        let before = chosen.len();
        chosen.extend(more);
        if chosen.len() == before {
            return chosen;
        }
    }
}

fn package(value: &Value) -> Package {
    let manifest = PathBuf::from(text(&value["manifest_path"]));
    let is = |target: &Value, kind: &str| items(&target["kind"]).any(|one| one == kind);
    let examples = items(&value["targets"]).filter(|target| is(target, "example"));
    let features = value["features"].as_object().into_iter().flatten();
    let own = features.filter(|(name, parts)| *name != "default" && !names_a_dependency(name, parts));
    Package {
        name: text(&value["name"]),
        folder: manifest.parent().map(PathBuf::from).unwrap_or_default(),
        features: own.map(|(name, _)| name.clone()).collect(),
        examples: examples.map(|target| text(&target["name"])).collect(),
        is_library: items(&value["targets"]).any(|target| is(target, "lib")),
        is_loaded: items(&value["targets"]).any(|target| is(target, "cdylib")),
        dependencies: items(&value["dependencies"]).map(|dependency| text(&dependency["name"])).collect(),
    }
}

/// Returns whether Cargo made this feature for an optional dependency.
fn names_a_dependency(name: &str, parts: &Value) -> bool {
    items(parts).eq([&Value::String(format!("dep:{name}"))])
}

pub(crate) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depending(name: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|name| (*name).to_owned()).collect();
        Package { name: name.to_owned(), dependencies, ..Package::default() }
    }

    #[test]
    fn the_packages_of_this_workspace_are_found_with_their_features_and_examples() {
        let packages = packages().unwrap();
        let library = packages.iter().find(|package| package.name == "scratchbook").unwrap();
        assert!(library.features.iter().any(|feature| feature == "sqlite"), "{library:?}");
        assert!(!library.features.iter().any(|feature| feature == "default"), "{library:?}");
        assert!(library.folder.join("Cargo.toml").is_file());
        assert!(packages.iter().any(|package| !package.examples.is_empty()));
        let chosen = with_dependents(&packages, BTreeSet::from(["scratchbook".to_owned()]));
        assert!(chosen.contains("scratchbook-cli") && !chosen.contains("xtask"), "{chosen:?}");
    }

    #[test]
    fn dependents_are_followed_to_the_end() {
        let packages = [depending("cli", &["server"]), depending("server", &["core"]), depending("other", &["serde"])];
        let chosen = with_dependents(&packages, BTreeSet::from(["core".to_owned()]));
        assert_eq!(chosen.into_iter().collect::<Vec<_>>(), ["cli", "core", "server"]);
    }

    #[test]
    fn a_feature_that_cargo_made_for_a_dependency_is_no_feature_of_the_package() {
        assert!(names_a_dependency("zstd", &serde_json::json!(["dep:zstd"])));
        assert!(!names_a_dependency("compression", &serde_json::json!(["dep:zstd"])));
        assert!(!names_a_dependency("zstd", &serde_json::json!(["dep:zstd", "dep:other"])));
    }
}
