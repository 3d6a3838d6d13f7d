//! Checks that everything agrees before a release: the version in all files that name it, the changelog and the tag.

use std::fs;

use crate::command::{output, program, root};
use crate::step::Stop;

/// Files that name the version of scratchbook, or of Rust, besides `Cargo.toml`, with the text around it.
const VERSION_IN: [(&str, &str); 3] = [
    ("lab/Cargo.toml", "\nversion = \""),
    ("deploy/kubernetes/scratchbook.yaml", "image: scratchbook:"),
    ("bindings/python/README.md", "install scratchbook-"),
];
const RUST_IN: [(&str, &str); 1] = [("deploy/Dockerfile", "FROM rust:")];

/// Checks the versions and the changelog. If this commit has the tag of a version, it must be ready for its release.
pub(crate) fn check() -> Result<(), Stop> {
    let manifest = read("Cargo.toml")?;
    let version = version()?;
    let mut breaches = own_versions(&manifest, &version);
    let rust = value(&manifest, "rust-version = \"").unwrap_or_default();
    for (files, wanted) in [(&VERSION_IN[..], &version), (&RUST_IN, &rust)] {
        for (file, before) in files {
            breaches
                .extend(named_in(&read(file)?, before, wanted).into_iter().map(|breach| format!("{file}: {breach}")));
        }
    }
    let tag = tag();
    breaches.extend(in_changelog(&read("CHANGELOG.md")?, &version, tag.as_deref()));
    if tag.is_some() && value(&manifest, "repository = \"").is_none() {
        breaches.push("Cargo.toml: a release needs `repository`, where `cargo binstall` looks for archives".to_owned());
    }
    for breach in &breaches {
        println!("{breach}");
    }
    match breaches.len() {
        0 => Ok(()),
        count => Err(Stop::Failed(format!("{count} versions differ"))),
    }
}

/// Returns the version of the workspace.
pub(crate) fn version() -> Result<String, Stop> {
    let missing = || Stop::Failed("Cargo.toml has no version".to_owned());
    value(&read("Cargo.toml")?, "\nversion = \"").ok_or_else(missing)
}

/// Returns the tag of a version on this commit.
fn tag() -> Option<String> {
    let tags = output(program("git").args(["tag", "--points-at", "HEAD"])).ok()?;
    tags.lines().find(|tag| tag.starts_with('v')).map(str::to_owned)
}

/// Returns the text after a name, up to the next quote.
fn value(text: &str, before: &str) -> Option<String> {
    Some(text.split_once(before)?.1.split('"').next()?.to_owned())
}

/// Checks that the crates of the workspace depend on each other in this version.
fn own_versions(manifest: &str, version: &str) -> Vec<String> {
    let own = manifest.lines().filter(|line| line.starts_with("scratchbook") && line.contains("path = "));
    let differ = own.filter(|line| value(line, "version = \"").is_some_and(|found| found != version));
    differ.map(|line| format!("Cargo.toml: the version is {version}, but: {line}")).collect()
}

/// Checks that every place that names a version names this one.
fn named_in(text: &str, before: &str, wanted: &str) -> Vec<String> {
    let found: Vec<_> = text.split(before).skip(1).map(|rest| rest.lines().next().unwrap_or_default()).collect();
    if found.is_empty() {
        return vec![format!("nothing begins with '{before}'")];
    }
    let is_wanted = |rest: &&&str| {
        let rest = rest.strip_prefix(wanted);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    };
    let differ = found.iter().filter(|rest| !is_wanted(rest));
    differ.map(|rest| format!("'{before}{rest}' is not {wanted}")).collect()
}

/// Checks that the changelog begins with unreleased changes; for a release, the version's part is the first with lines.
fn in_changelog(text: &str, version: &str, tag: Option<&str>) -> Vec<String> {
    let mut parts = text.split("\n## ").skip(1);
    let first = parts.next().unwrap_or_default();
    let Some(tag) = tag else {
        let right = first.starts_with("[Unreleased]") || first.starts_with(&format!("[{version}] - "));
        return if right { Vec::new() } else { vec!["CHANGELOG.md: does not begin with '## [Unreleased]'".to_owned()] };
    };
    let mut breaches = Vec::new();
    if tag != format!("v{version}") {
        breaches.push(format!("the tag is {tag}, but the version is {version}"));
    }
    let is_empty = |part: &str| part.lines().skip(1).all(|line| line.trim().is_empty());
    let newest =
        if first.starts_with("[Unreleased]") && is_empty(first) { parts.next().unwrap_or_default() } else { first };
    if !newest.starts_with(&format!("[{version}] - ")) {
        breaches.push(format!("CHANGELOG.md: what is released has to be below '## [{version}] - DATE'"));
    }
    breaches
}

fn read(path: &str) -> Result<String, Stop> {
    fs::read_to_string(root().join(path)).map_err(|error| Stop::Failed(format!("{path}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_and_files_with_another_version_are_found() {
        let manifest = "[workspace.package]\nversion = \"0.2.0\"\n\
            scratchbook = { path = \"a\", version = \"0.2.0\" }\nscratchbook-core = { path = \"b\", version = \"0.1.0\" }\n\
            scratchbook-test = { path = \"c\" }\nserde = { version = \"1\" }\n";
        assert_eq!(own_versions(manifest, "0.2.0").len(), 1);
        assert!(named_in("image: a:0.2.0\nimage: a:0.2.0-x\n", "image: a:", "0.2.0").is_empty());
        for text in ["image: a:0.1.0", "image: a:0.2.0\nimage: a:0.2.01", "image: b:0.2.0"] {
            assert_eq!(named_in(text, "image: a:", "0.2.0").len(), 1, "{text}");
        }
    }

    #[test]
    fn a_tag_needs_its_version_and_its_part_of_the_changelog() {
        let unreleased = "# Changelog\n\n## [Unreleased]\n\n- new\n\n## [0.1.0] - 2026-01-01\n\n- old\n";
        let released = "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n\n- old\n";
        for text in [unreleased, released] {
            assert!(in_changelog(text, "0.1.0", None).is_empty());
        }
        assert!(in_changelog(released, "0.1.0", Some("v0.1.0")).is_empty());
        assert_eq!(in_changelog(unreleased, "0.1.0", Some("v0.1.0")).len(), 1);
        assert_eq!(in_changelog(released, "0.1.0", Some("v0.2.0")).len(), 1);
        assert_eq!(in_changelog(released, "0.2.0", Some("v0.2.0")).len(), 1);
        assert_eq!(in_changelog("# Changelog\n", "0.1.0", None).len(), 1);
    }
}
