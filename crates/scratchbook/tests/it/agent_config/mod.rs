//! Agents from files of ADK's Agent Config.

#[cfg(feature = "mcp")]
mod google_adk;
mod samples;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use scratchbook::agent::{
    AgentCatalog, ConfiguredTool, FunctionAgent, FunctionTool, ReadonlyContext, Tool, ToolContext, Toolset, load_agent,
    load_agents,
};
use scratchbook::model::{Llm, LlmResponse, ScriptedLlm};
use scratchbook::{Agent, Error, ErrorKind, Event, InMemorySessionService, LlmAgent, Runner};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::runner::own_instruction;

/// A folder with files in it.
struct FilesFolder(TempDir);

impl FilesFolder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(folder)
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("root_agent.yaml")
    }

    fn load(&self) -> scratchbook::Result<Arc<dyn Agent>> {
        load_agent(&self.root(), &catalog())
    }
}

fn root(text: &str) -> FilesFolder {
    FilesFolder::new(&[("root_agent.yaml", text)])
}

/// Returns the error with which the agent in a file is refused.
fn refusal(text: &str) -> Error {
    root(text).load().unwrap_err()
}

fn catalog() -> AgentCatalog {
    let roll = FunctionTool::new("roll_die", "Rolls.", |_: Map<String, Value>, context: ToolContext| async move {
        context.state().set("rolled", 4)?;
        Ok(4)
    });
    let echo = ScriptedLlm::from_fn(|request| {
        let said = request.contents.last().map(scratchbook::Content::text).unwrap_or_default();
        match said.as_str() {
            "roll" => Ok(LlmResponse::call("roll_die", json!({}))),
            _ => Ok(LlmResponse::text(own_instruction(request))),
        }
    });
    AgentCatalog::new().model("echo", echo).tool(roll).agent(
        "library.custom",
        FunctionAgent::new("custom", |_| {
            futures_util::stream::iter([Ok(Event::new("custom").with_content("I am code."))])
        }),
    )
}

async fn say(agent: Arc<dyn Agent>, message: &str) -> Vec<Event> {
    let runner = Runner::builder("app", agent, InMemorySessionService::new()).auto_create_session().build().unwrap();
    runner.run("user", "s", message).try_collect().await.unwrap()
}

#[tokio::test]
async fn an_agent_from_a_file_runs_with_its_tools_and_writes_its_output_key() {
    let agent = root(
        "# yaml-language-server: $schema=https://example.org/AgentConfig.json\nagent_class: LlmAgent\nname: dice\n\
         model: echo\ndescription: Rolls dice.\ninstruction: You have rolled {rolled?}.\noutput_key: user:said\n\
         tools:\n  - name: my_library.tools.roll_die\n",
    );
    let agent = agent.load().unwrap();
    assert_eq!((agent.name(), agent.description()), ("dice", "Rolls dice."));
    let events = say(agent, "roll").await;
    let last = events.last().unwrap();
    assert_eq!(last.content.as_ref().unwrap().text(), "You have rolled 4.");
    assert_eq!(json!(last.actions.state_delta), json!({"user:said": "You have rolled 4."}));
}

#[tokio::test]
async fn workflow_agents_run_the_agents_in_other_files_and_in_code() {
    let files = FilesFolder::new(&[
        (
            "root_agent.yaml",
            "agent_class: SequentialAgent\nname: both\nsub_agents:\n  - config_path: parts/first.yaml\n  - code: library.custom\n",
        ),
        (
            "parts/first.yaml",
            "agent_class: google.adk.agents.LoopAgent\nname: twice\nmax_iterations: 2\nsub_agents:\n  - config_path: second.yaml\n",
        ),
        ("parts/second.yaml", "name: speaker\nmodel: echo\ninstruction: Again.\n"),
    ]);
    let events = say(files.load().unwrap(), "go").await;
    let said: Vec<_> =
        events.iter().map(|event| (event.author.as_str(), event.content.as_ref().unwrap().text())).collect();
    assert_eq!(
        said,
        [("speaker", "Again.".to_owned()), ("speaker", "Again.".to_owned()), ("custom", "I am code.".to_owned())]
    );
}

#[tokio::test]
async fn what_shapes_requests_comes_from_the_file() {
    let model = ScriptedLlm::new([
        LlmResponse::call("transfer_to_agent", json!({"agent_name": "below"})),
        LlmResponse::text("Done."),
    ]);
    let files = FilesFolder::new(&[
        (
            "root_agent.yaml",
            "name: above\nmodel: recorded\nstatic_instruction: Always the same.\ninstruction: Now this.\n\
             generate_content_config:\n  temperature: 0.25\n  max_output_tokens: 99\n  thinking_config:\n    thinking_budget: 5\n\
             sub_agents:\n  - config_path: below.yaml\n  - config_path: beside.yaml\n",
        ),
        (
            "below.yaml",
            "name: below\nstatic_instruction:\n  - First.\n  - text: Second.\ninclude_contents: none\n\
             disallow_transfer_to_parent: true\ndisallow_transfer_to_peers: true\n",
        ),
        ("beside.yaml", "name: beside\n"),
    ]);
    let agent = load_agent(&files.root(), &catalog().model("recorded", model.clone())).unwrap();
    say(agent, "go").await;
    let [above, below] = &model.requests()[..] else { panic!("two requests are expected") };
    assert!(above.system_instruction.as_deref().unwrap().starts_with("Always the same.\n\nYou are an agent."));
    assert!(
        above.contents[0].text().contains("<<<BEGIN_SYSTEM_INSTRUCTION>>>\nNow this.\n<<<END_SYSTEM_INSTRUCTION>>>")
    );
    assert_eq!(
        json!(above.config),
        json!({"temperature": 0.25, "maxOutputTokens": 99, "thinkingConfig": {"thinking_budget": 5}})
    );
    assert_eq!(own_instruction(below), "First.\n\nSecond.");
    assert_eq!(below.contents.len(), 3, "the message, and what the other agent did since");
    assert_eq!(below.tools, []);
}

#[test]
fn names_of_adks_own_may_have_their_package_and_module() {
    let tools = [
        ("google.adk.tools.exit_loop_tool.exit_loop", "exit_loop"),
        ("google.adk.tools.get_user_choice_tool.get_user_choice_tool", "get_user_choice"),
        ("google.adk.tools.google_search_tool.google_search", "google_search"),
        ("google.adk.tools.load_artifacts_tool.load_artifacts_tool", "load_artifacts"),
        ("google.adk.tools.transfer_to_agent_tool.transfer_to_agent", "transfer_to_agent"),
    ];
    for class in ["Agent", "google.adk.agents.Agent", "google.adk.agents.llm_agent.LlmAgent"] {
        for (name, found) in tools {
            let text = format!("name: a\nmodel: echo\nagent_class: {class}\ntools:\n- name: {name}\n");
            let agent = root(&text).load().unwrap();
            assert_eq!(agent.as_llm_agent().unwrap().tools()[0].declaration().name, found);
        }
    }
    let tool = "{name: google.adk.tools.agent_tool.AgentTool, args: {agent: {code: library.custom}}}";
    root(&format!("name: a\nmodel: echo\ntools: [{tool}]")).load().unwrap();
}

#[test]
fn a_list_of_callbacks_without_entries_has_no_meaning() {
    root("name: a\nmodel: echo\nbefore_tool_callbacks: []\nafter_agent_callbacks: []").load().unwrap();
}

#[cfg(unix)]
#[test]
fn no_file_leads_out_of_the_folder_of_the_file_that_names_it() {
    let outside = root("name: outside\nmodel: echo");
    let inside = root("name: a\nmodel: echo\nsub_agents:\n- config_path: linked.yaml");
    std::os::unix::fs::symlink(outside.root(), inside.0.path().join("linked.yaml")).unwrap();
    let files = [outside.root().display().to_string(), "linked.yaml".to_owned(), "below/../linked.yaml".to_owned()];
    fs::create_dir(inside.0.path().join("below")).unwrap();
    for file in files {
        let text = format!("name: a\nmodel: echo\nsub_agents:\n- config_path: {file}");
        fs::write(inside.root(), text).unwrap();
        let error = inside.load().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{file}: {error}");
        assert!(error.to_string().contains("is not in the folder of the file"), "{error}");
    }
}

#[test]
fn a_model_is_inherited_from_the_agent_above_or_is_the_default() {
    let files = FilesFolder::new(&[
        ("root_agent.yaml", "name: above\nmodel: echo\nsub_agents:\n  - config_path: below.yaml\n"),
        ("below.yaml", "name: below\n"),
    ]);
    assert_eq!(files.load().unwrap().sub_agents()[0].name(), "below");
    assert_eq!(root("name: alone").load().unwrap_err().kind(), ErrorKind::InvalidArgument);
    let alone = root("name: alone");
    load_agent(&alone.root(), &catalog().default_model("echo")).unwrap();
}

#[test]
fn one_model_may_answer_for_all_whatever_files_name() {
    let files = FilesFolder::new(&[
        ("root_agent.yaml", "name: above\nmodel: gemini-2.5-flash\nsub_agents:\n  - config_path: below.yaml\n"),
        ("below.yaml", "name: below\nmodel: gpt-5\n"),
    ]);
    let agent = load_agent(&files.root(), &catalog().model_for_all("echo")).unwrap();
    let model = |agent: &dyn Agent| agent.as_llm_agent().unwrap().model().unwrap().name().to_owned();
    let below = &agent.sub_agents()[0];
    assert_eq!(model(&agent), model(below));
    let refused = load_agent(&files.root(), &catalog().model_for_all("none")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
}

#[test]
fn models_come_from_a_function_where_none_was_added_by_that_name() {
    let source = |name: &str| {
        let known = name.starts_with("my-");
        Ok(known.then(|| Arc::new(ScriptedLlm::new(["Hello."])) as Arc<dyn Llm>))
    };
    let catalog = catalog().models_from(source);
    load_agent(&root("name: a\nmodel: my-model").root(), &catalog).unwrap();
    let error = load_agent(&root("name: a\nmodel: gemini-2.5-flash").root(), &catalog).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("'gemini-2.5-flash'") && error.to_string().contains("'echo'"), "{error}");
}

#[test]
fn each_folder_with_a_root_agent_is_an_app() {
    let files = FilesFolder::new(&[
        ("b-app/root_agent.yaml", "name: b\nmodel: echo"),
        ("a_app/root_agent.yaml", "name: a\nmodel: echo"),
        ("notes/readme.txt", "no app"),
    ]);
    let names = |files: &FilesFolder| {
        load_agents(files.0.path(), &catalog()).map(|apps| apps.into_iter().map(|app| app.0).collect::<Vec<_>>())
    };
    assert_eq!(names(&files).unwrap(), ["a_app", "b-app"]);
    let single = load_agents(&files.0.path().join("a_app"), &catalog()).unwrap();
    assert_eq!(single[0].0, "a_app");
    assert_eq!(names(&FilesFolder::new(&[])).unwrap_err().kind(), ErrorKind::NotFound);
    for folder in ["1st", "with space", "user"] {
        let files = FilesFolder::new(&[(&format!("{folder}/root_agent.yaml"), "name: a\nmodel: echo")]);
        assert_eq!(names(&files).unwrap_err().kind(), ErrorKind::InvalidArgument, "{folder}");
    }
}

#[test]
fn agents_in_python_are_named_where_there_is_no_other() {
    let files = FilesFolder::new(&[("a/agent.py", "root_agent = None"), ("b/agent.py", "root_agent = None")]);
    let said = load_agents(files.0.path(), &catalog()).unwrap_err().to_string();
    for folder in ["a", "b"] {
        let folder = files.0.path().join(folder);
        assert!(said.contains(&format!("{} is a Python agent (agent.py)", folder.display())), "{said}");
    }
}

#[test]
fn what_is_refused_is_named_with_its_file() {
    for (text, kind, named) in [
        ("name: a\nmodel: echo\nbogus: 1", ErrorKind::InvalidArgument, "bogus"),
        ("name: a\nmodel: echo\nbogus: 1", ErrorKind::InvalidArgument, "line 3"),
        ("model: echo", ErrorKind::InvalidArgument, "name"),
        ("name: [", ErrorKind::InvalidArgument, "not an Agent Config"),
        ("", ErrorKind::InvalidArgument, "not an Agent Config"),
        ("name: a\nmodel: echo\ntools:\n  - name: fly", ErrorKind::NotFound, "'fly'"),
        (
            "name: a\nmodel: echo\ntools:\n  - name: roll_die\n    args:\n      sides: 6",
            ErrorKind::InvalidArgument,
            "'args'",
        ),
        ("name: a\nmodel: echo\nsub_agents:\n  - code: nobody", ErrorKind::NotFound, "'nobody'"),
        ("name: a\nmodel: echo\nsub_agents:\n  - {}", ErrorKind::InvalidArgument, "'config_path'"),
        ("name: a\nmodel: echo\nsub_agents:\n  - config_path: none.yaml", ErrorKind::NotFound, "none.yaml"),
        (
            "name: a\nmodel: echo\nsub_agents:\n  - config_path: root_agent.yaml",
            ErrorKind::InvalidArgument,
            "below itself",
        ),
        ("name: a\nmodel: echo\nsub_agents:\n  - config_path: ../none.yaml", ErrorKind::NotFound, "none.yaml"),
        (
            "name: a\nmodel: echo\nsub_agents:\n  - config_path: ..",
            ErrorKind::InvalidArgument,
            "'..' is not in the folder",
        ),
        (
            "name: a\nmodel: echo\nsub_agents:\n  - config_path: /",
            ErrorKind::InvalidArgument,
            "'/' is not in the folder",
        ),
        ("name: a\nmodel: echo\noutput_schema: {name: lib.City}", ErrorKind::Unsupported, "'output_schema'"),
        ("name: a\nmodel: echo\nbefore_model_callbacks: [{name: lib.f}]", ErrorKind::Unsupported, "callbacks"),
        ("name: a\nmodel: echo\ninclude_contents: some", ErrorKind::InvalidArgument, "some"),
        ("name: a\nmodel: echo\ngenerate_content_config: {tools: []}", ErrorKind::InvalidArgument, "tools"),
        ("name: a\nmodel: echo\ngenerate_content_config: {top_p: .nan}", ErrorKind::InvalidArgument, "'top_p'"),
        ("name: a\nagent_class: LoopAgent\ninclude_contents: none", ErrorKind::InvalidArgument, "'include_contents'"),
        ("name: a\nagent_class: my_library.MyAgent", ErrorKind::Unsupported, "'my_library.MyAgent'"),
        ("name: a\nagent_class: my_library.MyAgent\nown: 1", ErrorKind::Unsupported, "'my_library.MyAgent'"),
        ("name: a\nagent_class: SequentialAgent\nmodel: echo", ErrorKind::InvalidArgument, "'model'"),
        ("name: a\nmodel: echo\nmax_iterations: 2", ErrorKind::InvalidArgument, "'max_iterations'"),
        ("name: a\nmodel: echo\noutput_key: 'user:'", ErrorKind::InvalidArgument, "output key"),
    ] {
        let error = refusal(text);
        assert_eq!(error.kind(), kind, "{text}: {error}");
        let said = error.to_string();
        assert!(said.contains(named) && said.contains("root_agent.yaml") && !said.contains('\n'), "{text}: {error}");
    }
}

#[test]
fn no_text_makes_the_reader_panic() {
    for text in [
        "&a [*a]",
        "a: &a\n  b: *a",
        "\u{0}",
        "- - - -",
        "? ?",
        "!!binary x",
        "name: a\nname: b",
        "%YAML 9.9\n---\n",
        "{{{{",
    ] {
        refusal(text);
    }
    refusal(&"[".repeat(100_000));
}

#[test]
fn built_in_tools_and_classes_are_found_by_name() {
    let text = "
name: helper
model: echo
tools:
- name: google_search
- name: Die
  args: {sides: 6}
- name: google.adk.tools.load_artifacts
- name: exit_loop
- name: get_user_choice
- name: transfer_to_agent
- name: Shelf
";
    let catalog = catalog()
        .tool_class("Die", |args| {
            let name = format!("roll_{}", args["sides"]);
            let roll = |_: Map<String, Value>, _: ToolContext| async { Ok(4) };
            Ok(ConfiguredTool::Tool(Arc::new(FunctionTool::new(name, "Rolls a die.", roll))))
        })
        .tool_class("Shelf", |args| {
            assert!(args.is_empty());
            Ok(ConfiguredTool::Toolset(Arc::new(Shelf)))
        });
    let agent = load_agent(&root(text).root(), &catalog).unwrap();
    let agent = agent.as_llm_agent().unwrap();
    let names: Vec<_> = agent.tools().iter().map(|tool| tool.declaration().name.clone()).collect();
    let expected = ["google_search", "roll_6", "load_artifacts", "exit_loop", "get_user_choice", "transfer_to_agent"];
    assert_eq!(names, expected);
    assert_eq!(agent.toolsets().count(), 1);
    let error = refusal("name: a\nmodel: echo\ntools:\n  - name: my_library.exit_loop\n");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("get_user_choice"), "{error}");
}

#[derive(Debug)]
struct Shelf;

#[async_trait]
impl Toolset for Shelf {
    async fn get_tools(&self, _context: &ReadonlyContext) -> scratchbook::Result<Vec<Arc<dyn Tool>>> {
        Ok(Vec::new())
    }
}

#[test]
fn an_agent_in_another_file_is_a_tool() {
    let text = "
name: editor
model: echo
tools:
- name: AgentTool
  args:
    agent: {config_path: ./fact_checker.yaml}
    skip_summarization: true
- name: AgentTool
  args: {agent: {code: in_code}}
";
    let checker = "name: fact_checker\ndescription: Checks facts.\ntools:\n- name: google_search\n";
    let files = FilesFolder::new(&[("root_agent.yaml", text), ("fact_checker.yaml", checker)]);
    let in_code = LlmAgent::builder("in_code").model(ScriptedLlm::new(["Hello."])).build().unwrap();
    let agent = load_agent(&files.root(), &catalog().agent("in_code", in_code)).unwrap();
    let tools = agent.as_llm_agent().unwrap().tools();
    let names: Vec<_> = tools.iter().map(|tool| tool.declaration().name.as_str()).collect();
    assert_eq!(names, ["fact_checker", "in_code"]);
    assert_eq!(tools[0].declaration().description, "Checks facts.");
    for (args, said) in [
        ("{}", "agent"),
        ("{agent: {}}", "'config_path'"),
        ("{agent: {config_path: root_agent.yaml}}", "below itself"),
        ("{agent: {code: a}, bogus: 1}", "bogus"),
    ] {
        let error = refusal(&format!("name: a\nmodel: echo\ntools:\n- name: AgentTool\n  args: {args}\n"));
        assert!(error.to_string().contains(said), "{args}: {error}");
    }
}
