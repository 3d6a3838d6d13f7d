//! Which tests `cargo xtask test` runs, and which `cargo xtask gate`. The package or the module of a test says it.

/// A part of the tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tier {
    /// What a change may break, on a laptop.
    Test,
    /// The rest: further servers, other languages, browsers, and tests that hold an answer to a time.
    Gate,
}

/// Packages whose tests belong to `gate`, and which `test` does not build.
pub(crate) const PACKAGES_OF_GATE: [&str; 2] = ["custom-store", "scratchbook-browser-tests"];

/// Modules whose tests belong to `gate`, because of what they need.
const OF_GATE: [&str; 10] = [
    "adk_js",
    "axe_core",
    "generated_client",
    "google_adk",
    "mariadb",
    "mcp_everything",
    "mysql",
    "own_mariadb",
    "own_mysql",
    "schemathesis",
];

/// Modules whose tests hold an answer to a time, and fail beside others. `gate` runs them alone, one after the other.
const TIMED: [&str; 6] = ["attacks", "availability", "leaving", "shutdown", "timing", "waiting"];

/// Returns the tier of a test, given its package and its path within it, such as `postgres::wire::a_line_is_cut`.
pub(crate) fn tier(package: &str, test: &str) -> Tier {
    let is_of_gate = PACKAGES_OF_GATE.contains(&package) || is_in(test, &OF_GATE) || is_timed(test);
    if is_of_gate { Tier::Gate } else { Tier::Test }
}

/// Returns whether a test runs alone.
pub(crate) fn is_timed(test: &str) -> bool {
    is_in(test, &TIMED)
}

/// Returns whether a test is in a module of one of these names. The name of the test itself does not count.
pub(crate) fn is_in(test: &str, modules: &[&str]) -> bool {
    let above = test.rsplit_once("::").map_or("", |(above, _)| above);
    above.split("::").any(|module| modules.contains(&module))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_and_packages_decide_and_names_of_tests_do_not() {
        assert_eq!(tier("scratchbook", "conformance::mariadb::feed::a_fork_is_told_once"), Tier::Gate);
        assert_eq!(tier("scratchbook", "conformance::postgres::feed::a_fork_is_told_once"), Tier::Test);
        assert_eq!(tier("scratchbook", "models::gemini::answers_are_those_of::google_adk"), Tier::Test);
        assert_eq!(tier("custom-store", "feed::a_fork_is_told_once"), Tier::Gate);
        assert_eq!(tier("scratchbook-cli", "serve::attacks::a_flood_stops_nobody"), Tier::Gate);
        assert!(is_timed("serve::attacks::a_flood_stops_nobody") && !is_timed("attacks"));
    }
}
