//! The accepted counts, in `accepted.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use super::cases::CASES;

/// The counts by case, for each compiler, architecture and profile.
pub(crate) struct Accepted(BTreeMap<String, BTreeMap<String, u64>>);

impl Accepted {
    pub(crate) fn read() -> Self {
        let text = fs::read_to_string(file()).unwrap_or_else(|_| "{}".to_owned());
        Self(serde_json::from_str(&text).expect("accepted.json is the counts of each compiler"))
    }

    /// Returns whether there are counts for this program's build.
    pub(crate) fn is_known(&self) -> bool {
        self.0.contains_key(&counted_with())
    }

    pub(crate) fn of(&self, case: &str) -> Option<u64> {
        self.0.get(&counted_with())?.get(case).copied()
    }

    /// Writes these counts in place of the earlier counts for this build. Counts for other builds stay as they are.
    pub(crate) fn accept(mut self, counts: &BTreeMap<&'static str, u64>) {
        let counts = counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        self.0.insert(counted_with(), counts);
        fs::write(file(), serde_json::to_string_pretty(&self.0).unwrap() + "\n").unwrap();
    }

    /// Describes the counts that exceed the accepted counts by more than the case's room, and the cases without an
    /// accepted count.
    pub(crate) fn risen(&self, counts: &BTreeMap<&'static str, u64>) -> Vec<String> {
        let risen = |case: &super::cases::Case| {
            let count = counts[case.name];
            let Some(accepted) = self.of(case.name) else {
                return Some(format!("{}: {count} instructions, and no count is accepted", case.name));
            };
            let more = (count as f64 / accepted as f64 - 1.0) * 100.0;
            (more > case.room).then(|| {
                format!(
                    "{}: {count} instructions, and {accepted} are accepted: {more:.1} % more, {} % allowed",
                    case.name, case.room
                )
            })
        };
        CASES.iter().filter_map(risen).collect()
    }
}

fn file() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "instructions", "accepted.json"].iter().collect()
}

/// Returns the compiler, the architecture and the profile of this program.
pub(crate) fn counted_with() -> String {
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().expect("rustc says its version");
    let version = String::from_utf8_lossy(&version.stdout);
    let version = version.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let profile = if cfg!(debug_assertions) { "test" } else { "bench" };
    format!("{version}, {}, {profile} profile", env::consts::ARCH)
}
