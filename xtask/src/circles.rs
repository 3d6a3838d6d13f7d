//! Finds circles among the modules of a crate: modules that import each other, directly or through others.

use std::collections::{BTreeMap, BTreeSet};

use crate::house::is_test;

/// The sources of the crates whose modules import each other in one direction. A module is a file or a folder here.
const ONE_WAY: [&str; 2] = ["crates/scratchbook-server/src/", "crates/scratchbook-cli/src/"];

/// For each module, the modules that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// The imports of the crates of `ONE_WAY`.
#[derive(Debug, Default)]
pub(crate) struct Crates([Imports; ONE_WAY.len()]);

impl Crates {
    /// Records what a file imports from its own crate.
    pub(crate) fn add(&mut self, path: &str, text: &str) {
        for (folder, imports) in ONE_WAY.iter().zip(&mut self.0) {
            let Some(file) = path.strip_prefix(folder).filter(|_| path.ends_with(".rs") && !is_test(path)) else {
                continue;
            };
            let module = file.split('/').next().unwrap_or_default().trim_end_matches(".rs");
            // The root of the crate imports every module.
            if module != "lib" {
                imports.entry(module.to_owned()).or_default().extend(imported(text));
            }
        }
    }

    /// Returns one circle of each crate that has circles, as a breach of the rules.
    pub(crate) fn breaches(&self) -> impl Iterator<Item = String> {
        let found = ONE_WAY.iter().zip(&self.0).filter_map(|(folder, imports)| Some((folder, circle(imports)?)));
        found
            .map(|(folder, circle)| format!("{folder}: modules import each other in a circle: {}", circle.join(" -> ")))
    }
}

/// Returns the first names of the paths below `crate::` in a source. Paths in its unit tests are left out.
fn imported(text: &str) -> BTreeSet<String> {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let is_path = |at: usize| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let paths = code.match_indices("crate::").filter(|(at, _)| is_path(*at)).map(|(at, path)| &code[at + path.len()..]);
    paths.flat_map(first_names).collect()
}

/// Returns the first name of a path, or the first names of a group of paths.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| {
        let text = text.trim_start();
        text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())].to_owned()
    };
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut depth, mut names, mut begin) = (0, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(name(&group[begin..at]));
                begin = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// Returns a circle of modules: each module imports the next one, and the last one is the first one again.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    let mut left = imports.clone();
    // A module that imports none of the others is in no circle.
    loop {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        for (name, imported) in &mut left {
            imported.retain(|other| other != name && names.contains(other));
        }
        left.retain(|_, imported| !imported.is_empty());
        if left.len() == names.len() {
            break;
        }
    }
    let mut circle = vec![left.keys().next()?.clone()];
    loop {
        let next = left.get(circle.last()?)?.first()?.clone();
        let begin = circle.iter().position(|name| *name == next);
        circle.push(next);
        if let Some(begin) = begin {
            return Some(circle.split_off(begin));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the breaches of files in the first crate.
    fn breaches(files: &[(&str, &str)]) -> Vec<String> {
        let mut crates = Crates::default();
        files.iter().for_each(|(file, text)| crates.add(&format!("{}{file}", ONE_WAY[0]), text));
        crates.breaches().collect()
    }

    #[test]
    fn a_circle_is_found_through_other_modules() {
        let files = [
            ("a/mod.rs", "use crate::{b, x::{y, z}};"),
            ("b.rs", "fn b() {\n    crate::c::d()\n}"),
            ("c/d.rs", "use crate::a::A;"),
            ("x.rs", "use crate::c;"),
            ("lib.rs", "use crate::a;"),
        ];
        let found = breaches(&files);
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with("a -> b -> c -> a"), "{found:?}");
        assert!(breaches(&files[..2]).is_empty());
    }

    #[test]
    fn tests_comments_and_a_module_itself_make_no_circle() {
        let text = "use crate::a::B;\n// crate::b\n#[cfg(test)]\nmod tests {\n    use crate::b;\n}";
        assert!(breaches(&[("a.rs", text), ("b.rs", "use crate::a;"), ("a/tests.rs", "use crate::b;")]).is_empty());
    }
}
