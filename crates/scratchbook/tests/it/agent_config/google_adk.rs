//! Compares our reading of files with google-adk's: the agents are equal, and each field is read or refused by name.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use scratchbook::agent::{Agent, load_agent};
use serde_json::{Value, json};

use super::samples::{WITHOUT_PYTHON, catalog, file};
use super::{catalog as catalog_of_code, root};

/// Returns what google-adk reports about the samples and about its classes.
fn theirs() -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/agent_config/describe.py");
    let output = Command::new(scratchbook_test_servers::python().unwrap())
        .arg(script)
        .args(WITHOUT_PYTHON.map(file))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns a description of an agent, in the form of `describe.py`.
fn described(agent: &Arc<dyn Agent>) -> Value {
    let below: Vec<_> = agent.sub_agents().iter().map(described).collect();
    let mut about = json!({"name": agent.name(), "description": agent.description(), "sub_agents": below});
    if let Some(agent) = agent.as_llm_agent() {
        let mut tools: Vec<_> = agent.tools().iter().map(|tool| tool.declaration().name.clone()).collect();
        tools.extend(agent.toolsets().map(|_| "a toolset".to_owned()));
        tools.sort();
        about["model"] = json!(agent.model().unwrap().name());
        about["instruction"] = json!(agent.instruction().unwrap().source());
        about["output_key"] = json!(agent.output_key());
        about["tools"] = json!(tools);
    }
    about
}

#[test]
fn agents_in_files_are_those_that_google_adk_loads() {
    let theirs = theirs();
    for (folder, theirs) in WITHOUT_PYTHON.iter().zip(theirs["agents"].as_array().unwrap()) {
        let ours = load_agent(&file(folder), &catalog()).unwrap();
        assert_eq!(described(&ours), *theirs, "{folder}");
    }
}

/// A class of google-adk's files: a file with `<fields>`, the required fields, and each field with a value and the text
/// of the error. The text is empty if the field is accepted.
struct Class {
    name: &'static str,
    file: &'static str,
    needed: &'static [(&'static str, &'static str)],
    fields: &'static [(&'static str, &'static str, &'static str)],
}

const NOT_SUPPORTED: &str = "is not supported; leave it out, or build the agent in code";
const WORKFLOW: &[(&str, &str, &str)] = &[
    ("agent_class", "", ""),
    ("name", "a", ""),
    ("description", "Text.", ""),
    ("sub_agents", "[{code: library.custom}]", ""),
    ("before_agent_callbacks", "[{name: lib.f}]", NOT_SUPPORTED),
    ("after_agent_callbacks", "[{name: lib.f}]", NOT_SUPPORTED),
];
const UNKNOWN: &str = "unknown field";

const CLASSES: [Class; 12] = [
    Class {
        name: "LlmAgentConfig",
        file: "{<fields>}",
        needed: &[("name", "a"), ("model", "echo"), ("instruction", "Text.")],
        fields: &[
            ("agent_class", "Agent", ""),
            ("name", "a", ""),
            ("description", "Text.", ""),
            ("sub_agents", "[{code: library.custom}]", ""),
            ("before_agent_callbacks", "[{name: lib.f}]", NOT_SUPPORTED),
            ("after_agent_callbacks", "[{name: lib.f}]", NOT_SUPPORTED),
            ("before_model_callbacks", "[{name: lib.f}]", NOT_SUPPORTED),
            ("after_model_callbacks", "[{name: lib.f}]", NOT_SUPPORTED),
            ("before_tool_callbacks", "[{name: lib.f}]", NOT_SUPPORTED),
            ("after_tool_callbacks", "[{name: lib.f}]", NOT_SUPPORTED),
            ("model", "echo", ""),
            ("model_code", "{name: lib.model}", NOT_SUPPORTED),
            ("instruction", "Text.", ""),
            ("static_instruction", "Text.", ""),
            ("disallow_transfer_to_parent", "true", ""),
            ("disallow_transfer_to_peers", "true", ""),
            ("input_schema", "{name: lib.City}", NOT_SUPPORTED),
            ("output_schema", "{name: lib.City}", NOT_SUPPORTED),
            ("output_key", "said", ""),
            ("include_contents", "none", ""),
            ("tools", "[{name: exit_loop}]", ""),
            ("generate_content_config", "{temperature: 0.1}", ""),
        ],
    },
    Class {
        name: "SequentialAgentConfig",
        file: "{agent_class: SequentialAgent, <fields>}",
        needed: &[("name", "a")],
        fields: WORKFLOW,
    },
    Class {
        name: "ParallelAgentConfig",
        file: "{agent_class: ParallelAgent, <fields>}",
        needed: &[("name", "a")],
        fields: WORKFLOW,
    },
    Class {
        name: "LoopAgentConfig",
        file: "{agent_class: LoopAgent, <fields>}",
        needed: &[("name", "a")],
        fields: &[
            ("agent_class", "", ""),
            ("name", "a", ""),
            ("description", "Text.", ""),
            ("sub_agents", "[{code: library.custom}]", ""),
            ("before_agent_callbacks", "[{name: lib.f}]", NOT_SUPPORTED),
            ("after_agent_callbacks", "[{name: lib.f}]", NOT_SUPPORTED),
            ("max_iterations", "3", ""),
        ],
    },
    Class {
        name: "AgentRefConfig",
        file: "{name: a, model: echo, sub_agents: [{<fields>}]}",
        needed: &[],
        fields: &[("config_path", "none.yaml", "No such file"), ("code", "library.custom", "")],
    },
    Class {
        name: "ToolConfig",
        file: "{name: a, model: echo, tools: [{<fields>}]}",
        needed: &[("name", "exit_loop")],
        fields: &[("name", "exit_loop", ""), ("args", "{}", "takes no 'args'")],
    },
    Class {
        name: "AgentToolConfig",
        file: "{name: a, model: echo, tools: [{name: AgentTool, args: {<fields>}}]}",
        needed: &[("agent", "{code: library.custom}")],
        fields: &[
            ("agent", "{code: library.custom}", ""),
            ("skip_summarization", "true", ""),
            ("include_plugins", "false", ""),
        ],
    },
    Class {
        name: "McpToolsetConfig",
        file: "{name: a, model: echo, tools: [{name: McpToolset, args: {<fields>}}]}",
        needed: &[("streamable_http_connection_params", "{url: 'http://a'}")],
        fields: &[
            ("stdio_server_params", "{command: npx}", "exactly one of"),
            ("stdio_connection_params", "{server_params: {command: npx}}", "exactly one of"),
            ("sse_connection_params", "{url: 'http://a'}", "use 'streamable_http_connection_params'"),
            ("streamable_http_connection_params", "{url: 'http://a'}", ""),
            ("tool_filter", "[a]", ""),
            ("tool_name_prefix", "a", ""),
            ("tool_list_cache_ttl_seconds", "60", ""),
            ("auth_scheme", "{type: apiKey}", "put the server's key into the 'headers'"),
            ("auth_credential", "{auth_type: apiKey}", "put the server's key into the 'headers'"),
            ("credential_key", "a", "put the server's key into the 'headers'"),
            ("use_mcp_resources", "true", "only tools are read"),
        ],
    },
    Class {
        name: "StdioServerParameters",
        file: "{name: a, model: echo, tools: [{name: McpToolset, args: {stdio_server_params: {<fields>}}}]}",
        needed: &[("command", "npx")],
        fields: &[
            ("command", "npx", ""),
            ("args", "[a]", ""),
            ("env", "{A: b}", ""),
            ("cwd", "/", ""),
            ("encoding", "utf-8", UNKNOWN),
            ("encoding_error_handler", "strict", UNKNOWN),
        ],
    },
    Class {
        name: "StdioConnectionParams",
        file: "{name: a, model: echo, tools: [{name: McpToolset, args: {stdio_connection_params: {<fields>}}}]}",
        needed: &[("server_params", "{command: npx}")],
        fields: &[("server_params", "{command: npx}", ""), ("timeout", "2", "")],
    },
    Class {
        name: "StreamableHTTPConnectionParams",
        file: "{name: a, model: echo, tools: [{name: McpToolset, args: {streamable_http_connection_params: {<fields>}}}]}",
        needed: &[("url", "'http://a'")],
        fields: &[
            ("url", "'http://a'", ""),
            ("headers", "{A: b}", ""),
            ("timeout", "2", ""),
            ("sse_read_timeout", "20", ""),
            ("terminate_on_close", "true", ""),
            ("httpx_client_factory", "lib.f", UNKNOWN),
        ],
    },
    Class {
        name: "GenerateContentConfig",
        file: "{name: a, model: echo, generate_content_config: {<fields>}}",
        needed: &[],
        fields: &[
            ("temperature", "0.1", ""),
            ("top_p", "0.1", ""),
            ("top_k", "3", ""),
            ("candidate_count", "1", ""),
            ("max_output_tokens", "9", ""),
            ("stop_sequences", "[a]", ""),
            ("response_logprobs", "true", ""),
            ("logprobs", "1", ""),
            ("presence_penalty", "0.1", ""),
            ("frequency_penalty", "0.1", ""),
            ("seed", "1", ""),
            ("response_mime_type", "text/plain", ""),
            ("response_modalities", "[TEXT]", ""),
            ("media_resolution", "MEDIA_RESOLUTION_LOW", ""),
            ("speech_config", "{}", ""),
            ("thinking_config", "{thinking_budget: 1}", ""),
            ("image_config", "{}", ""),
            ("safety_settings", "[{category: a, threshold: 'OFF'}]", ""),
            ("tool_config", "{}", ""),
            ("cached_content", "a", ""),
            ("labels", "{a: b}", ""),
            ("http_options", "{}", UNKNOWN),
            ("should_return_http_response", "true", UNKNOWN),
            ("system_instruction", "Text.", UNKNOWN),
            ("response_schema", "{}", UNKNOWN),
            ("response_json_schema", "{}", UNKNOWN),
            ("routing_config", "{}", UNKNOWN),
            ("model_selection_config", "{}", UNKNOWN),
            ("tools", "[]", UNKNOWN),
            ("audio_timestamp", "true", UNKNOWN),
            ("automatic_function_calling", "{}", UNKNOWN),
            ("enable_enhanced_civic_answers", "true", UNKNOWN),
            ("model_armor_config", "{}", UNKNOWN),
            ("service_tier", "a", UNKNOWN),
            ("audio_transcription_config", "{}", UNKNOWN),
            ("continuation_token", "a", UNKNOWN),
            ("automatic_continuation", "true", UNKNOWN),
            ("generation_output_config", "{}", UNKNOWN),
            ("store", "true", UNKNOWN),
        ],
    },
];

#[test]
fn every_field_of_google_adks_files_is_read_or_refused_by_name() {
    let theirs = theirs();
    let theirs: BTreeMap<String, Vec<String>> = serde_json::from_value(theirs["fields"].clone()).unwrap();
    let mut ours = BTreeMap::new();
    for Class { name: class, fields, .. } in &CLASSES {
        let mut names: Vec<_> = fields.iter().map(|(field, ..)| (*field).to_owned()).collect();
        names.sort();
        ours.insert((*class).to_owned(), names);
    }
    assert_eq!(ours, theirs, "the fields of google-adk's classes");
    let catalog = scratchbook::mcp::mcp_toolset_class(catalog_of_code(), scratchbook::mcp::McpConfigPolicy::AllowStdio);
    let mut wrong = Vec::new();
    for Class { name: class, file, needed, fields } in &CLASSES {
        for (field, value, refused) in *fields {
            let needed =
                needed.iter().filter(|(name, _)| name != field).map(|(name, value)| format!("{name}: {value}"));
            // An `agent_class` without a value stands for the class in the file.
            let given = (!value.is_empty()).then(|| format!("{field}: {value}"));
            let all: Vec<_> = needed.chain(given).collect();
            let text = file.replace("<fields>", &all.join(", "));
            let said = load_agent(&root(&text).root(), &catalog).err().map(|error| error.to_string());
            let is_right = match &said {
                None => refused.is_empty(),
                Some(said) if *refused == UNKNOWN => said.contains(&format!("unknown field `{field}`")),
                Some(said) => !refused.is_empty() && said.contains(refused),
            };
            if !is_right {
                wrong.push(format!("{class}: {text}: {said:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
