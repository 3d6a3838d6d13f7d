//! Which module of the library may use which. The compiler allows any; a direction keeps them apart.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::house::is_test;
use crate::step::Stop;

/// Each module of the library and the modules it may use, lowest first. A module that is not here may use
/// nothing and be used by nothing, so a new one needs a row. `lib.rs` may use everything: it only exports.
///
/// The direction is runner -> agent -> {model, tool} -> session -> event -> {state, content} -> error.
/// `event` is above `state` because an event carries a delta. Nothing but `adapter` and `plan` is above `store`: a store
/// is reached through the traits of `session` and `artifact`.
const MAY_USE: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("environment", &[]),
    ("json", &["error"]),
    ("extra", &["error"]),
    ("state", &["error", "json"]),
    ("content", &["error", "extra", "json"]),
    ("event", &["content", "error", "extra", "json", "state"]),
    ("session", &["content", "error", "event", "json", "state"]),
    ("artifact", &["content", "error", "json", "session"]),
    ("schema", &["error", "event", "json", "session", "state"]),
    ("vertex", &["content", "error", "event", "json", "session", "state"]),
    // One store speaks the API whose JSON `vertex` is.
    ("store", &["artifact", "content", "environment", "error", "event", "json", "session", "state", "vertex"]),
    // Adapters take writes apart by the pure part of the stores, as stores do.
    (
        "adapter",
        &["artifact", "content", "environment", "error", "event", "extra", "json", "session", "state", "store"],
    ),
    // Only names again what stores of this crate and of others are built on.
    ("plan", &["artifact", "session", "store"]),
    ("instruction", &["error", "json", "state"]),
    ("model", &["content", "error", "event", "json"]),
    ("tool", &["artifact", "content", "error", "event", "json", "model", "session", "state"]),
    (
        "agent",
        &[
            "artifact",
            "content",
            "environment",
            "error",
            "event",
            "instruction",
            "json",
            "model",
            "session",
            "state",
            "tool",
        ],
    ),
    ("agent_config", &["agent", "content", "error", "model", "tool"]),
    ("runner", &["agent", "artifact", "content", "environment", "error", "event", "json", "session", "state", "tool"]),
];

/// Single names that go up the table, each for a reason; anything else beside them stays a breach.
const UPWARD: &[(&str, &str)] = &[
    // A promise says that a deadline changes nothing.
    ("store", "adapter::WithDeadline"),
    // A tool is called with the context of the agent that calls it.
    ("tool", "agent::ToolContext"),
    // A context tells its agent how the run was asked for.
    ("agent", "runner::RunConfig"),
    // A task that an agent starts has to stay in the run that it is part of.
    ("agent", "runner::inherit_run"),
];

/// The stores. They never know each other, and nothing but `store/mod.rs` knows them.
const STORES: &[&str] = &["memory", "sqlite", "postgres", "mysql", "vertex_ai"];

/// The pure core has no clock, no randomness, no async and no I/O: in these modules none of these words.
const PURE: &[&str] = &["state", "instruction"];
const IMPURE: &[&str] = &["async fn", "async move", "tokio", "std::time", "std::fs", "std::net", "uuid", "SystemTime"];

/// What the sources of the library break.
pub(crate) fn check(src: &Path) -> Result<Vec<String>, Stop> {
    let mut files = Vec::new();
    read_sources(src, "", &mut files).map_err(|error| Stop::Failed(format!("{}: {error}", src.display())))?;
    Ok(breaches(&files))
}

/// Reads every source file below a folder, as its path from there and its text.
fn read_sources(folder: &Path, prefix: &str, files: &mut Vec<(String, String)>) -> std::io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read_sources(&entry.path(), &format!("{name}/"), files)?;
        } else if name.ends_with(".rs") && !is_test(&name) {
            files.push((name, fs::read_to_string(entry.path())?));
        }
    }
    Ok(())
}

fn breaches(files: &[(String, String)]) -> Vec<String> {
    let exports_of = |name: &str| files.iter().find(|(path, _)| path == name).map(|(_, text)| exports(text));
    let of_root = exports_of("lib.rs").unwrap_or_default();
    let of_store = exports_of("store/mod.rs").unwrap_or_default();
    let mut found = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| path != "lib.rs") {
        let own = module_of(path);
        for (number, line) in code_lines(text) {
            for word in IMPURE.iter().filter(|word| PURE.contains(&own[0]) && line.contains(**word)) {
                found.push(format!("{path}:{number}: '{word}' in the pure core"));
            }
        }
        for used in paths_used(text, &own) {
            if let Some(why) = breach(&own, &used, &of_root, &of_store) {
                found.push(format!("{path}: {why}"));
            }
        }
    }
    found
}

/// Why a module may not use a path, which begins at the root of the crate.
fn breach(own: &[&str], used: &[String], of_root: &Exports, of_store: &Exports) -> Option<String> {
    let first = used.first()?;
    let module = of_root.get(first).unwrap_or(first);
    if module != own[0] {
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == own[0]) else {
            return Some(format!("the module '{}' has no row in the table of xtask/src/layers.rs", own[0]));
        };
        let name = format!("{module}::{}", used[usize::from(module == first)..].first().map_or("", String::as_str));
        if !allowed.contains(&module.as_str()) && !UPWARD.contains(&(own[0], name.as_str())) {
            return Some(format!("'{}' may not use '{module}' ({})", own[0], used.join("::")));
        }
        return None;
    }
    if module != "store" || own.len() == 1 {
        return None;
    }
    let second = used.get(1)?;
    let store = of_store.get(second).unwrap_or(second).as_str();
    let other = STORES.contains(&store) && store != own[1];
    other.then(|| format!("'{}' may not know the store '{store}' ({})", own.join("::"), used.join("::")))
}

/// The module that a file is, as a path from the root of the crate; never empty.
fn module_of(path: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    if parts.len() > 1 && parts.last() == Some(&"mod") {
        parts.pop();
    }
    parts
}

/// The numbered lines of a file up to its unit tests, without comments.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let tests = text.find("\n#[cfg(test)]\nmod ").unwrap_or(text.len());
    let code = text[..tests].lines().map(|line| line.split("//").next().unwrap_or_default());
    code.enumerate().map(|(index, line)| (index + 1, line))
}

fn code(text: &str) -> String {
    code_lines(text).flat_map(|(_, line)| [line, "\n"]).collect()
}

/// Every path of the crate that a file names, by `crate::` or `super::`, from the root of the crate and no
/// longer than two names, which is all that the rules look at.
fn paths_used(text: &str, own: &[&str]) -> Vec<Vec<String>> {
    let code = code(text);
    let mut found = Vec::new();
    for (start, base) in [("crate::", &[][..]), ("super::", &own[..own.len() - 1])] {
        for (at, _) in code.match_indices(start) {
            let before = &code[..at];
            if before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$') {
                continue;
            }
            let mut base: Vec<&str> = base.to_vec();
            let mut rest = &code[at + start.len()..];
            while let Some(after) = rest.strip_prefix("super::") {
                base.pop();
                rest = after;
            }
            let base: Vec<String> = base.into_iter().map(str::to_owned).collect();
            found.extend(tree(rest).into_iter().map(|names| base.iter().cloned().chain(names).take(2).collect()));
        }
    }
    found
}

/// The paths that the text of a `use` tree begins with: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn tree(text: &str) -> Vec<Vec<String>> {
    let text = text.trim_start();
    if let Some(group) = text.strip_prefix('{') {
        return branches(group).into_iter().flat_map(tree).collect();
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let name = &text[..end];
    if text[end..].starts_with('!') {
        // An exported macro is at the root of the crate wherever it was written.
        return Vec::new();
    }
    let mut paths = text[end..].strip_prefix("::").map(tree).unwrap_or_default();
    if name.is_empty() {
        return paths;
    }
    if paths.is_empty() {
        paths.push(Vec::new());
    }
    for path in &mut paths {
        path.insert(0, name.to_owned());
    }
    paths
}

/// The text of a group after its `{`, cut at the commas that are its own.
fn branches(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => {
                found.push(&group[start..at]);
                start = at + 1;
            }
            '}' => {
                found.push(&group[start..at]);
                break;
            }
            _ => {}
        }
    }
    found.retain(|branch| !branch.trim().is_empty());
    found
}

/// What a module exports from modules inside it: the name of each thing, and the module it is from.
type Exports = BTreeMap<String, String>;

fn exports(text: &str) -> Exports {
    let code = code(text);
    code.match_indices("pub use ")
        .flat_map(|(at, start)| tree(&code[at + start.len()..]))
        .filter(|path| path.len() > 1)
        .filter_map(|path| Some((path.last()?.clone(), path.first()?.clone())))
        .collect()
}

#[cfg(test)]
mod tests;
