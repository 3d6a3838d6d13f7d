//! An app's agents and their tools as a tree in JSON, and as a graph in the language of Graphviz.

use std::fmt::Write;

use scratchbook::Agent;
use serde_json::{Value, json};

/// The colours of a graph.
#[derive(Clone, Copy, Debug)]
pub(super) enum Theme {
    Light,
    Dark,
}

/// Returns an agent with its tools and everything below it.
pub(super) fn as_json(agent: &dyn Agent) -> Value {
    let sub_agents: Vec<_> = agent.sub_agents().iter().map(|agent| as_json(agent.as_ref())).collect();
    let tools: Vec<_> = tools(agent).map(|name| json!({"name": name, "type": "tool"})).collect();
    let mut tree =
        json!({"name": agent.name(), "description": agent.description(), "sub_agents": sub_agents, "tools": tools});
    if let Some(agent) = agent.as_llm_agent() {
        tree["instruction"] = json!(agent.instruction().and_then(|instruction| instruction.source()));
        tree["output_key"] = json!(agent.output_key());
    }
    tree
}

/// Returns an agent and everything below it as a graph. An agent has an edge to each agent that it may hand over to and
/// to each tool that it may call.
pub(super) fn as_dot(agent: &dyn Agent, theme: Theme) -> String {
    let (back, ink) = match theme {
        Theme::Light => ("#ffffff", "#333537"),
        Theme::Dark => ("#333537", "#e8eaed"),
    };
    let mut lines = String::new();
    draw(agent, &mut lines);
    format!(
        "digraph {{\n\tgraph [rankdir=LR bgcolor=\"{back}\"]\n\
         \tnode [shape=box style=rounded color=\"{ink}\" fontcolor=\"{ink}\"]\n\tedge [color=\"{ink}\"]\n{lines}}}\n"
    )
}

fn draw(agent: &dyn Agent, lines: &mut String) {
    let name = quoted(agent.name());
    // Writing to a string does not fail.
    let _ = writeln!(lines, "\t{name} [shape=ellipse label={}]", quoted(&format!("🤖 {}", agent.name())));
    for tool in tools(agent) {
        // A node has the name that the tool has in events, because the interface marks calls by this name. Tools of the
        // same name share a node.
        let node = quoted(tool);
        let _ = writeln!(lines, "\t{node} [label={}]", quoted(&format!("🔧 {tool}")));
        let _ = writeln!(lines, "\t{name} -> {node} [style=dashed]");
    }
    for sub_agent in agent.sub_agents() {
        draw(sub_agent.as_ref(), lines);
        let _ = writeln!(lines, "\t{name} -> {}", quoted(sub_agent.name()));
    }
}

fn tools(agent: &dyn Agent) -> impl Iterator<Item = &str> {
    let tools = agent.as_llm_agent().map_or(&[][..], |agent| agent.tools());
    tools.iter().map(|tool| tool.declaration().name.as_str())
}

/// Quotes a text for Graphviz, in whose strings a backslash begins an escape.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use scratchbook::LlmAgent;
    use scratchbook::model::ScriptedLlm;

    use super::*;

    #[test]
    fn names_cannot_leave_their_quotes() {
        let child = LlmAgent::builder("b").model(ScriptedLlm::new(["x"])).build().unwrap();
        let agent = LlmAgent::builder("a").model(ScriptedLlm::new(["x"])).sub_agent(child).build().unwrap();
        let dot = as_dot(&agent, Theme::Dark);
        assert!(dot.contains("\"a\" -> \"b\"\n"), "{dot}");
        assert_eq!(quoted(r#"a"]; \"#), r#""a\"]; \\""#);
    }
}
