//! The agents of a scenario, built as it describes them.

use std::sync::Arc;

use schemars::JsonSchema;
use scratchbook::agent::{
    AgentTool, FunctionTool, GoogleSearchTool, IncludeContents, LoadArtifactsTool, LoopAgent, ParallelAgent,
    SequentialAgent, ToolContext, exit_loop, get_user_choice, transfer_to_agent,
};
use scratchbook::model::RemoteLlm;
use scratchbook::{Agent, Content, Error, LlmAgent};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::runner::ToolArgs;

pub(super) fn build(spec: &Value, url: &str) -> Arc<dyn Agent> {
    let (name, description) = (text(spec, "name").unwrap(), text(spec, "description").unwrap_or_default());
    let below: Vec<_> = spec["sub_agents"].as_array().into_iter().flatten().map(|one| build(one, url)).collect();
    match text(spec, "kind") {
        Some("sequential") => Arc::new(SequentialAgent::new(name, below).with_description(description)),
        Some("parallel") => Arc::new(ParallelAgent::new(name, below).with_description(description)),
        Some("loop") => {
            let rounds = spec["max_iterations"].as_u64().and_then(|rounds| usize::try_from(rounds).ok()).unwrap();
            Arc::new(LoopAgent::new(name, below).with_description(description).with_max_iterations(rounds))
        }
        _ => Arc::new(llm_agent(spec, below, url)),
    }
}

fn llm_agent(spec: &Value, below: Vec<Arc<dyn Agent>>, url: &str) -> LlmAgent {
    let mut agent = LlmAgent::builder(text(spec, "name").unwrap());
    if spec["model"] != false {
        let model = RemoteLlm::builder("gemini-2.5-flash").endpoint(url).api_key("not a key").max_retries(0);
        agent = agent.model(model.build().unwrap());
    }
    if let Some(description) = text(spec, "description") {
        agent = agent.description(description);
    }
    if let Some(instruction) = text(spec, "instruction") {
        agent = agent.instruction(instruction);
    }
    if let Some(instruction) = text(spec, "global_instruction") {
        agent = agent.global_instruction(instruction);
    }
    agent = match spec.get("static_instruction") {
        None => agent,
        Some(Value::String(text)) => agent.static_instruction(text.as_str()),
        Some(content) => agent.static_instruction(serde_json::from_value::<Content>(content.clone()).unwrap()),
    };
    if let Some(config) = spec.get("generate_content_config") {
        agent = agent.generate_content_config(serde_json::from_value(config.clone()).unwrap());
    }
    if spec["include_contents"] == "none" {
        agent = agent.include_contents(IncludeContents::None);
    }
    if spec["disallow_transfer_to_parent"] == true {
        agent = agent.disallow_transfer_to_parent();
    }
    if spec["disallow_transfer_to_peers"] == true {
        agent = agent.disallow_transfer_to_peers();
    }
    if let Some(key) = text(spec, "output_key") {
        agent = agent.output_key(key);
    }
    agent = match spec.get("output_schema") {
        None => agent,
        Some(Value::String(name)) => agent.output_schema(schema(name)),
        Some(schema) => agent.output_schema(schema.clone()),
    };
    if let Some(name) = text(spec, "input_schema") {
        agent = agent.input_schema(schema(name));
    }
    let tools = spec["tools"].as_array().into_iter().flatten();
    agent = tools.fold(agent, |agent, name| agent.tool(tool(name.as_str().unwrap())));
    let agents = spec["agent_tools"].as_array().into_iter().flatten();
    agent = agents.fold(agent, |agent, one| agent.tool(AgentTool::new(build(one, url)).unwrap()));
    below.into_iter().fold(agent, |agent, sub_agent| agent.sub_agent(sub_agent)).build().unwrap()
}

fn text<'a>(spec: &'a Value, field: &str) -> Option<&'a str> {
    spec.get(field)?.as_str()
}

/// Returns the schema that pydantic generates for a type of the other side.
fn schema(name: &str) -> Value {
    let city = json!({
        "title": "City",
        "description": "A city.",
        "type": "object",
        "properties": {
            "name": {"title": "Name", "type": "string", "description": "What it is called."},
            "people": {"title": "People", "type": "integer"},
            "mayor": {"anyOf": [{"$ref": "#/$defs/Person"}, {"type": "null"}], "default": null},
            "districts": {"title": "Districts", "type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["name", "people"],
    });
    let person = json!({
        "title": "Person",
        "type": "object",
        "properties": {"name": {"title": "Name", "type": "string"}},
        "required": ["name"],
    });
    match name {
        "City" => {
            let mut schema = city;
            schema["$defs"] = json!({"Person": person});
            schema
        }
        "Cities" => {
            json!({"type": "array", "items": {"$ref": "#/$defs/City"}, "$defs": {"City": city, "Person": person}})
        }
        _ => panic!("there is no schema '{name}'"),
    }
}

#[derive(Deserialize, JsonSchema)]
struct LookUpArgs {
    city: String,
    #[serde(default = "switzerland")]
    country: String,
}

fn switzerland() -> String {
    "CH".to_owned()
}

#[derive(Deserialize, JsonSchema)]
struct RememberArgs {
    key: String,
    value: String,
}

/// Returns a tool of the other side, with google-adk's declaration.
fn tool(name: &str) -> Arc<dyn scratchbook::agent::Tool> {
    let string = |title: &str| json!({"type": "string", "title": title});
    match name {
        "roll_die" => {
            let about = "Rolls a die.\n\nArgs:\n  sides: How many sides it has.";
            let schema = parameters(name, json!({"sides": {"type": "integer", "title": "Sides"}}), &["sides"]);
            Arc::new(
                FunctionTool::new(name, about, |_: ToolArgs, _| async { Ok(json!({"rolled": 4})) })
                    .with_parameters_json_schema(schema),
            )
        }
        "look_up" => {
            let country = json!({"type": "string", "title": "Country", "default": "CH"});
            let schema = parameters(name, json!({"city": string("City"), "country": country}), &["city"]);
            let tool =
                FunctionTool::new(name, "Looks a city up.", |LookUpArgs { city, country }: LookUpArgs, _| async move {
                    Ok(format!("{city} is in {country}."))
                });
            Arc::new(tool.with_parameters_json_schema(schema))
        }
        "remember" => {
            let schema = parameters(name, json!({"key": string("Key"), "value": string("Value")}), &["key", "value"]);
            let tool = FunctionTool::new(
                name,
                "Keeps a value.",
                |RememberArgs { key, value }: RememberArgs, context: ToolContext| async move {
                    context.state().set(&key, value)?;
                    Ok(json!({"kept": true}))
                },
            );
            Arc::new(tool.with_parameters_json_schema(schema))
        }
        "fail" => {
            let tool = FunctionTool::new(name, "Fails.", |_: ToolArgs, _| async {
                Err::<(), _>(Error::invalid("the die fell off the table"))
            });
            Arc::new(tool.with_parameters_json_schema(Value::Null))
        }
        "ask_boss" => {
            let schema = parameters(name, json!({"question": string("Question")}), &["question"]);
            let tool = FunctionTool::new(name, "Asks the boss.", |_: ToolArgs, _| async { Ok(()) });
            Arc::new(tool.with_parameters_json_schema(schema).long_running())
        }
        "open_ticket" => {
            let schema = parameters(name, json!({"title": string("Title")}), &["title"]);
            let tool = FunctionTool::new(name, "Opens a ticket.", |_: ToolArgs, _| async {
                Ok(json!({"status": "pending", "ticket": 7}))
            });
            Arc::new(tool.with_parameters_json_schema(schema).long_running())
        }
        "exit_loop" => Arc::new(exit_loop()),
        "get_user_choice" => Arc::new(get_user_choice()),
        "google_search" => Arc::new(GoogleSearchTool::new()),
        "load_artifacts" => Arc::new(LoadArtifactsTool::new()),
        "transfer_to_agent" => Arc::new(transfer_to_agent()),
        _ => panic!("there is no tool '{name}'"),
    }
}

fn parameters(name: &str, properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "title": format!("{name}Params"), "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}
