//! `adk conformance test` with `scratchbook serve`: google-adk records, and we replay.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::python::python;
use crate::Fixture;
use crate::serve::Served;

/// A hotel's desk, which lets guests choose a room, and its porter.
const DESK: &str = "
name: desk
model: gemini-2.5-flash
description: Greets guests.
instruction: Greet {name?} and let the guest choose a room.
output_key: last_words
generate_content_config:
  temperature: 0.2
  thinking_config: {include_thoughts: false}
tools:
- name: get_user_choice
sub_agents:
- config_path: porter.yaml
";

const PORTER: &str = "
name: porter
model: gemini-2.5-flash
description: Carries bags.
instruction: Carry the bags of {name?}.
";

const CHOICE: &str = "
description: A guest chooses a room.
agent: desk
initial_state: {name: Ann}
user_messages:
- text: Hello
  state_delta: {language: en}
- content:
    parts:
    - function_response:
        name: get_user_choice
        response: {result: suite}
";

const HANDOVER: &str = "
description: The porter takes over.
agent: desk
user_messages:
- text: My bags, please.
";

/// Agents and recorded test cases.
struct RecordedCases(TempDir);

impl RecordedCases {
    fn recorded() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cases = Self(folder);
        cases.write("agents/desk/root_agent.yaml", DESK);
        cases.write("agents/desk/porter.yaml", PORTER);
        cases.write("cases/basics/choice/spec.yaml", CHOICE);
        cases.write("cases/basics/handover/spec.yaml", HANDOVER);
        for mode in ["none", "sse"] {
            let done = conformance(&["record", &cases.path("agents"), &cases.path("cases"), mode]);
            assert!(done.status.success(), "{}", shown(&done));
        }
        cases
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Starts a server that replays the cases in a folder.
    fn serve(&self, fixture: &Fixture, folder: &str) -> Served {
        let mut command = fixture.command(&["--json", "serve", "--port", "0"]);
        command.args(["--agents", &self.path("agents"), "--conformance", &self.path(folder)]);
        command.env_remove("GEMINI_API_KEY").env_remove("GOOGLE_API_KEY");
        Served::of(command)
    }

    fn test(&self, served: &Served, mode: &str) -> Output {
        conformance(&["test", served.greeting["url"].as_str().unwrap(), &self.path("cases"), mode])
    }
}

fn conformance(arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/google_adk/conformance.py");
    Command::new(python()).arg(script).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn recordings_of_google_adk_are_replayed_for_its_conformance_tests() {
    let cases = RecordedCases::recorded();
    let fixture = Fixture::empty();
    let served = cases.serve(&fixture, "cases");
    for mode in ["none", "sse"] {
        let done = cases.test(&served, mode);
        assert!(done.status.success() && shown(&done).contains("Passed: 2"), "{mode}: {}", shown(&done));
    }
    // Another instruction is another request.
    cases.write("agents/desk/porter.yaml", &PORTER.replace("Carry the bags", "Lose the bags"));
    let changed = Fixture::empty();
    let done = cases.test(&cases.serve(&changed, "cases"), "none");
    let said = shown(&done);
    assert!(!done.status.success() && said.contains("Passed: 1") && said.contains("'system_instruction'"), "{said}");
    // Test cases elsewhere are not read.
    std::fs::create_dir(cases.0.path().join("others")).unwrap();
    let elsewhere = Fixture::empty();
    let said = shown(&cases.test(&cases.serve(&elsewhere, "others"), "none"));
    assert!(said.contains("Passed: 0") && said.contains("is not in the folder"), "{said}");
}
