//! Checks that a package compiles with each of its features alone and without features, since users may choose any of
//! them.

use crate::command::{cargo, run_all};
use crate::step::Stop;
use crate::workspace::{Package, packages};

/// Runs the step `features`. Warnings are errors in the package itself, but not in its dependencies.
pub(crate) fn check() -> Result<(), Stop> {
    let packages = packages()?;
    let checks = packages.iter().flat_map(|package| {
        sets(package).into_iter().map(|features| {
            let mut command = cargo(&["rustc", "--quiet", "--profile", "check", "--no-default-features"]);
            command.args(["--package", &package.name, package.target(), "--features", &features]);
            command.args(["--", "-D", "warnings"]);
            command
        })
    });
    run_all(checks.collect::<Vec<_>>())
}

/// Returns the sets of features that a package is checked with. The other steps build it with all of them.
fn sets(package: &Package) -> Vec<String> {
    if package.features.is_empty() {
        return Vec::new();
    }
    std::iter::once(String::new()).chain(package.features.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_without_features_is_not_checked_again() {
        let mut package = Package::default();
        assert!(sets(&package).is_empty());
        package.features = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(sets(&package), ["", "a", "b"]);
    }
}
