//! The agents of a folder.

use std::fs;

use serde_json::json;

use super::Served;
use crate::Fixture;

fn write(fixture: &Fixture, app: &str, file: &str, text: &str) {
    let folder = fixture.path("agents").join(app);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(file), text).unwrap();
}

#[test]
fn the_error_says_why_an_agent_cannot_be_hosted() {
    for (file, text, code, said) in [
        ("root_agent.yaml", "name: a\n", 2, "the agent 'a' has no model; name one"),
        ("root_agent.yaml", "name: a\nmodel: gemini-2.5-flash\n", 6, "set the environment variable GOOGLE_API_KEY"),
        ("root_agent.yaml", "name: a\nbogus: 1\n", 2, "unknown field"),
        ("agent.py", "root_agent = None\n", 3, "is a Python agent (agent.py); only root_agent.yaml can be hosted here"),
    ] {
        let fixture = Fixture::empty();
        write(&fixture, "a", file, text);
        let failed =
            fixture.fails(code, &["serve", "--port", "0", "--agents", fixture.path("agents").to_str().unwrap()]);
        assert!(failed.contains(said) && !failed.contains("\\n"), "{text}: {failed}");
    }
}

#[test]
fn agents_in_python_are_skipped_with_a_line_in_the_log() {
    let fixture = Fixture::empty();
    write(&fixture, "a", "agent.py", "root_agent = None\n");
    write(&fixture, "b", "root_agent.yaml", "name: b\nmodel: echo\n");
    let served = Served::new(&fixture, &["--agents", fixture.path("agents").to_str().unwrap()]);
    assert_eq!(served.greeting["apps"], json!(["b"]));
    let logs = served.logs();
    assert!(logs.contains("is a Python agent (agent.py)"), "{logs}");
}

#[test]
fn a_program_in_an_agents_file_needs_an_option() {
    let fixture = Fixture::empty();
    let text = "name: a\nmodel: echo\ntools:\n- name: McpToolset\n  args: {stdio_server_params: {command: touch, args: [x]}}\n";
    write(&fixture, "a", "root_agent.yaml", text);
    let agents = fixture.path("agents");
    let failed = fixture.fails(9, &["serve", "--port", "0", "--agents", agents.to_str().unwrap()]);
    assert!(failed.contains("a file may not name a program as an MCP server"), "{failed}");
    let served = Served::new(&fixture, &["--agents", agents.to_str().unwrap(), "--allow-stdio-mcp"]);
    assert_eq!(served.greeting["apps"], json!(["a"]));
}

#[test]
fn a_folder_of_test_cases_has_to_exist() {
    let fixture = Fixture::empty();
    let missing = fixture.path("missing");
    let failed = fixture.fails(3, &["serve", "--port", "0", "--conformance", missing.to_str().unwrap()]);
    assert!(failed.contains("--conformance: there is no folder"), "{failed}");
}
