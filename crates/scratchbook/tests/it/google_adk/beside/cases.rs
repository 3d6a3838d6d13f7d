//! Random cases: trees of agents, what their models say, what their tools and callbacks do, and what the user says.
//!
//! A seed always gives the same case. The cases leave out what depends on chance, and each difference of google-adk
//! that would change everything after it. `stated.rs` or `docs/adk-compatibility.md` describe these. "There" is
//! google-adk:
//!
//! - reads of what `after_agent` wrote for an agent that hands over: there the callback is not called
//! - reads of an output key if `before_agent` answers: there the key holds that answer
//! - an output key of an agent that writes text beside calls: there the key holds this text, too
//! - a callback after another of its kind that answers: here callbacks after a model and after a tool run in a chain
//! - a callback that escalates and writes nothing: there no event shows this
//! - a hand-over by an agent that calls a long-running tool: there it is not carried out
//! - an answer to a call if the root is not an LlmAgent: there no agent receives it
//! - an answer to a call within a parallel agent: there the answer has no branch
//! - a tool that fails: there it ends the run
//! - a call of an unknown tool if there is a `before_tool`: there the callback is called for it
//! - callbacks around a long-running tool: there their writes are lost
//! - callbacks before a model that fails: here their writes are stored
//! - agents that end each other, below an agent that may hand over: there that agent's model is asked again
//! - an empty answer without a finish reason: there no event shows it
//! - a failure beside agents that run in parallel: how far these agents have come depends on chance
//! - reads of what a long-running tool wrote: there it is lost
//! - reads of what cancelled agents wrote: there it is visible until the run is over
//! - writes of a failing tool, or before it, if a callback answers in its place: there they stay
//! - reads, by calls beside an agent tool, of what that agent or the other calls wrote: there it is visible at once
//! - an agent tool that fails or waits for an answer: there its failure ends the run, and its answer names ids

use serde_json::{Map, Value, json};

use crate::generate::Dice;

/// A call of a tool that fails.
const TOOL_FAILS: &str = r#"["act",{"fails""#;

/// Returns whether a call of an agent tool runs beside other calls anywhere in a value.
pub(super) fn runs_agent_beside(value: &Value) -> bool {
    let is_beside = |calls: &Value| {
        let first = calls[0][0].as_str().is_some_and(|name| name.contains("_tool"));
        first && calls.as_array().is_some_and(|calls| calls.len() > 1)
    };
    match value {
        Value::Object(fields) => fields.get("calls").is_some_and(is_beside) || fields.values().any(runs_agent_beside),
        Value::Array(items) => items.iter().any(runs_agent_beside),
        _ => false,
    }
}

pub(super) fn case(seed: u64) -> Value {
    let mut cases = CaseGenerator { dice: Dice::new(seed), agents: 0, writes: 0 };
    let mut place = AgentPosition {
        reads: ["k1", "k2", "user:u", "app:a", "temp:t"].map(str::to_owned).to_vec(),
        writes: ["k1", "k2", "user:u", "app:a", "temp:t"].map(str::to_owned).to_vec(),
        ..AgentPosition::default()
    };
    let agent = cases.agent(&mut place);
    let answers = agent["kind"] == "llm" && !agent.to_string().contains(r#""parallel""#);
    let turns = 1 + cases.dice.roll(3);
    let turns: Vec<_> = (0..turns)
        .map(|turn| match turn > 0 && answers && cases.dice.one_in(2) {
            true => json!({"answer": {"number": turn}}),
            false => json!({"say": format!("message {turn}")}),
        })
        .collect();
    let mut case = json!({"state": {"k1": "given", "user:u": 7}, "agent": agent, "turns": turns});
    let plugins: Vec<_> = (0..cases.dice.roll(3)).map(|number| cases.plugin(number, &case)).collect();
    case["plugins"] = json!(plugins);
    case
}

/// The place of an agent in the tree.
#[derive(Clone, Default)]
struct AgentPosition {
    depth: u64,
    /// The keys that the agent can read and write. If other agents run in parallel, these are only its own keys.
    reads: Vec<String>,
    writes: Vec<String>,
    /// The parent and the siblings before this agent, to which it may hand over.
    above: Vec<String>,
    /// Whether this agent must not end the agents around it.
    is_parallel: bool,
    /// Whether an agent above may have handed over.
    is_handed: bool,
    /// Whether this is within an agent tool.
    is_tool: bool,
}

struct CaseGenerator {
    dice: Dice,
    agents: u64,
    writes: u64,
}

impl CaseGenerator {
    fn agent(&mut self, place: &mut AgentPosition) -> Value {
        self.agents += 1;
        let name = format!("a{}", self.agents);
        let kinds = match place.depth {
            0 | 1 => &["llm", "llm", "sequential", "loop", "parallel"][..],
            2 => &["llm", "llm", "llm", "llm", "sequential", "parallel"],
            _ => &["llm"],
        };
        match self.dice.of(kinds) {
            "llm" if place.depth == 0 && self.dice.one_in(8) => self.followed(&name, place),
            "llm" => self.llm(&name, place),
            "parallel" if self.dice.one_in(4) && !place.is_handed => self.cancelling(&name, place),
            "parallel" => self.parallel(&name, place),
            kind => {
                let count = 1 + self.dice.roll(3);
                let mut within = AgentPosition { depth: place.depth + 1, above: Vec::new(), ..place.clone() };
                let below: Vec<_> = (0..count).map(|_| self.agent(&mut within)).collect();
                place.reads = within.reads;
                let mut agent = json!({"kind": kind, "name": name, "sub_agents": below});
                if kind == "loop" {
                    agent["max_iterations"] = json!(1 + self.dice.roll(3));
                }
                self.around(&mut agent, place);
                agent
            }
        }
    }

    /// Callbacks around the turn of a workflow agent.
    fn around(&mut self, agent: &mut Value, place: &AgentPosition) {
        for kind in ["before_agent", "after_agent"] {
            if self.dice.one_in(6) {
                agent["callbacks"][kind] = self.callbacks(kind, agent["name"].as_str().unwrap(), place, false);
            }
        }
    }

    fn parallel(&mut self, name: &str, place: &mut AgentPosition) -> Value {
        let count = 1 + self.dice.roll(3);
        let outer = place.clone();
        let below: Vec<_> = (0..count)
            .map(|child| {
                let own = ["", "user:", "temp:"].map(|scope| format!("{scope}{name}_{child}"));
                let mut within =
                    AgentPosition { depth: outer.depth + 1, above: Vec::new(), is_parallel: true, ..outer.clone() };
                within.reads.extend(own.clone());
                within.writes = own.to_vec();
                place.reads.extend(own);
                self.agent(&mut within)
            })
            .collect();
        let mut agent = json!({"kind": "parallel", "name": name, "sub_agents": below});
        self.around(&mut agent, place);
        agent
    }

    /// Makes agents; the first of them ends the others while they wait for their models.
    fn cancelling(&mut self, name: &str, place: &AgentPosition) -> Value {
        let quick = format!("{name}_quick");
        let lost = format!("{name}_lost");
        let slow = json!({
            "kind": "llm", "name": format!("{name}_slow"), "script": [], "pause": 3000,
            "callbacks": {"before_model": [{"set": {lost: "cancelled"}}]},
        });
        let own = AgentPosition { writes: vec![format!("{name}_k")], ..place.clone() };
        let mut ends = self.write(&own);
        ends["escalate"] = json!(true);
        let quick = json!({"kind": "llm", "name": quick, "pause": 40, "script": [{"calls": [["act", ends.clone()]]},
            {"calls": [["act", ends.clone()]]}, {"calls": [["act", ends]]}]});
        json!({"kind": "parallel", "name": name, "sub_agents": [quick, slow]})
    }

    /// Makes a root that hands over to agents that run in parallel and to an agent that follows them.
    fn followed(&mut self, name: &str, place: &mut AgentPosition) -> Value {
        let all = format!("{name}_all");
        let mut within = AgentPosition { depth: 2, is_handed: true, ..place.clone() };
        let parallel = self.parallel(&format!("{name}_parallel"), &mut within);
        let next = self.llm(&format!("{name}_next"), &mut within);
        let sequence = json!({"kind": "sequential", "name": all, "sub_agents": [parallel, next]});
        json!({"kind": "llm", "name": name, "script": [{"calls": [["transfer_to_agent", {"agent_name": all}]]}],
            "sub_agents": [sequence]})
    }

    fn llm(&mut self, name: &str, place: &mut AgentPosition) -> Value {
        let mut below = Vec::new();
        let mut targets = place.above.clone();
        if place.depth < 2 && self.dice.one_in(2) {
            for _ in 0..1 + self.dice.roll(2) {
                let above: Vec<_> = std::iter::once(name.to_owned())
                    .chain(below.iter().map(|agent: &Value| agent["name"].as_str().unwrap().to_owned()))
                    .collect();
                let mut within = AgentPosition { depth: place.depth + 1, above, is_handed: true, ..place.clone() };
                below.push(self.agent(&mut within));
                targets.push(below.last().unwrap()["name"].as_str().unwrap().to_owned());
            }
        }
        let count = self.dice.roll(5);
        let mut script: Vec<_> = (0..count).map(|_| self.answer(name, &targets, place)).collect();
        let agent_tools = self.agent_tools(name, &mut script, place);
        let recovers = self.dice.one_in(2);
        if recovers {
            self.fail_tools(&mut script);
        }
        if json!(script).to_string().contains(r#"["later""#) {
            script.retain(|answer| !answer.to_string().contains("agent_name"));
        }
        let calls = json!(script).to_string();
        let hands_over = calls.contains("agent_name");
        let calls_missing = calls.contains(r#"["missing""#) || calls.contains(r#"["transfer_to_agent",{}]"#);
        let waits = calls.contains("later_");
        let runs_beside = script.iter().any(runs_agent_beside);
        let tools_fail = calls.contains(TOOL_FAILS);
        let fails = script.iter().any(|answer| answer.get("fails").is_some());
        let mut agent = json!({"kind": "llm", "name": name, "sub_agents": below, "script": script});
        if !agent_tools.is_empty() {
            agent["agent_tools"] = json!(agent_tools);
        }
        if recovers {
            for kind in ["on_model_error", "on_tool_error"] {
                let mut deed = self.write(place);
                deed["give"] = json!(format!("{kind} of {name}"));
                agent["callbacks"][kind] = json!([deed]);
            }
        }
        if self.dice.one_in(2) {
            let key = self.read(place);
            agent["instruction"] = json!(format!("I am {name}. {key}={{{key}?}} and {{none?}} of ${{{key}}}."));
        }
        for kind in ["before_agent", "after_agent", "before_model", "after_model", "before_tool", "after_tool"] {
            let is_kept_out = match kind {
                "before_tool" => waits || runs_beside || tools_fail || calls_missing,
                "after_tool" => waits || runs_beside,
                "before_model" => fails && !recovers,
                _ => false,
            };
            if self.dice.one_in(7) && !is_kept_out {
                agent["callbacks"][kind] = match kind == "after_agent" && hands_over {
                    true => json!([{"set": {(format!("after_{name}")): self.writes}}]),
                    false => self.callbacks(kind, name, place, true),
                };
            }
        }
        let answers_first = agent["callbacks"]["before_agent"].to_string().contains("give");
        let speaks_beside = agent["script"]
            .as_array()
            .unwrap()
            .iter()
            .any(|answer| answer.get("text").is_some() && answer.get("calls").is_some());
        if self.dice.one_in(3) && !speaks_beside && !(place.is_tool && answers_first) {
            agent["output_key"] = match answers_first {
                true => json!(format!("said_{name}")),
                false => json!(self.one_of(&place.writes)),
            };
        }
        agent
    }

    /// Makes agent tools, and a separate answer with a call of each.
    fn agent_tools(&mut self, name: &str, script: &mut Vec<Value>, place: &AgentPosition) -> Vec<Value> {
        if place.is_tool || !self.dice.one_in(4) {
            return Vec::new();
        }
        let tools = (0..1 + self.dice.roll(2)).map(|number| {
            let own = format!("{name}_tool{number}");
            let mut within =
                AgentPosition { depth: 3, above: Vec::new(), is_tool: true, is_parallel: true, ..place.clone() };
            let agent = match self.dice.one_in(3) {
                true => {
                    let below: Vec<_> = (0..2).map(|part| self.llm(&format!("{own}_{part}"), &mut within)).collect();
                    json!({"kind": "sequential", "name": own, "sub_agents": below})
                }
                false => self.llm(&own, &mut within),
            };
            let mut calls = vec![json!([own, {"request": format!("do {}", self.writes)}])];
            if self.dice.one_in(3) {
                self.writes += 1;
                let key = self.one_of(&place.writes);
                calls.push(json!(["act", {"set": {(key): self.writes}}]));
            }
            let at = self.dice.roll(script.len() as u64 + 1);
            script.insert(usize::try_from(at).unwrap(), json!({"calls": calls}));
            json!({"agent": agent, "skip": self.dice.one_in(5), "plugins": !self.dice.one_in(4)})
        });
        tools.collect()
    }

    /// Makes some calls of `act` fail.
    fn fail_tools(&mut self, script: &mut [Value]) {
        let answers = script.iter_mut().filter(|answer| !runs_agent_beside(answer));
        for call in answers.filter_map(|answer| answer.get_mut("calls")?.as_array_mut()).flatten() {
            if call[0] == "act" && self.dice.one_in(4) {
                call[1] = json!({"fails": "the tool is broken"});
            }
        }
    }

    /// A plugin, whose keys nobody reads.
    fn plugin(&mut self, number: u64, case: &Value) -> Value {
        let name = format!("p{number}");
        let text = case.to_string();
        let (tools_fail, waits) =
            (text.contains(TOOL_FAILS) || text.contains(r#"["missing""#), text.contains(r#"["later""#));
        let fails = text.contains(r#"{"fails":"no answer"#);
        let hands_over = text.contains("agent_name");
        let kinds = [
            "on_user_message",
            "before_run",
            "on_event",
            "after_run",
            "before_agent",
            "after_agent",
            "before_model",
            "after_model",
            "on_model_error",
            "before_tool",
            "after_tool",
            "on_tool_error",
        ];
        let mut callbacks = Map::new();
        for kind in kinds {
            let is_kept_out = match kind {
                "before_tool" => tools_fail || waits || text.contains(r#"["transfer_to_agent",{}]"#),
                "after_tool" => waits,
                "before_model" => fails,
                "after_agent" => hands_over,
                _ => false,
            };
            if is_kept_out || !self.dice.one_in(3) {
                continue;
            }
            let mut deed = json!({"set": {(format!("{name}_{kind}")): self.writes}});
            if matches!(kind, "on_user_message" | "before_run") {
                deed["if"] = json!(format!("message {}", self.dice.roll(3)));
                deed["give"] = json!(format!("{kind} of {name}"));
            } else if kind == "on_event" {
                if self.dice.one_in(2) {
                    deed["mark"] = json!(name);
                }
            } else if kind.ends_with("error") || self.dice.one_in(5) && kind != "before_agent" {
                deed["give"] = json!(format!("{kind} of {name}"));
            }
            callbacks.insert(kind.to_owned(), json!([deed]));
        }
        json!({"name": name, "callbacks": callbacks})
    }

    fn callbacks(&mut self, kind: &str, name: &str, place: &AgentPosition, is_llm: bool) -> Value {
        let count = 1 + self.dice.roll(2);
        let mut deeds: Vec<_> = (0..count).map(|_| self.write(place)).collect();
        let last = deeds.last_mut().unwrap();
        if self.dice.one_in(3) && (is_llm || kind == "after_agent" || self.dice.one_in(3)) {
            last["give"] = json!(format!("{kind} of {name}"));
        } else if !place.is_parallel && !kind.ends_with("tool") && self.dice.one_in(8) {
            last["escalate"] = json!(true);
        }
        json!(deeds)
    }

    fn answer(&mut self, name: &str, targets: &[String], place: &AgentPosition) -> Value {
        self.writes += 1;
        let text = format!("{name} says {}", self.writes);
        match self.dice.roll(20) {
            0 => json!({"empty": "STOP"}),
            1 if !place.is_parallel && !place.is_tool => json!({"fails": "no answer today"}),
            2..=6 if !targets.is_empty() => {
                let target = self.one_of(targets);
                let mut calls = vec![json!(["transfer_to_agent", {"agent_name": target}])];
                if self.dice.one_in(4) {
                    calls.insert(0, json!(["act", self.write(place)]));
                }
                json!({"calls": calls})
            }
            7..=13 => {
                let count = 1 + self.dice.roll(3);
                let calls: Vec<_> = (0..count).map(|_| self.call(name, place)).collect();
                match self.dice.one_in(3) {
                    true => json!({"text": text, "calls": calls}),
                    false => json!({"calls": calls}),
                }
            }
            14..=16 => json!({"text": format!("{text}: <instruction>")}),
            _ => json!({"text": text}),
        }
    }

    fn call(&mut self, name: &str, place: &AgentPosition) -> Value {
        let mut deed = self.write(place);
        match self.dice.roll(12) {
            0 => return json!(["missing", deed]),
            1 => return json!(["transfer_to_agent", {}]),
            2..=4 if place.is_tool => {}
            2 | 3 => {
                self.writes += 1;
                let key = format!("{}later_{name}", self.dice.of(&["", "", "temp:"]));
                return json!(["later", {"set": {(key): self.writes}}]);
            }
            4 => {
                deed["give"] = json!({"status": format!("pending for {name}")});
                return json!(["later", deed]);
            }
            5 => deed["artifact"] = json!(format!("{name}.txt")),
            6 => deed["skip"] = json!(true),
            7 if !place.is_parallel => deed["escalate"] = json!(true),
            8 => deed["give"] = json!("a word"),
            _ => {}
        }
        json!(["act", deed])
    }

    /// A change of the state, or a copy of one key to another.
    fn write(&mut self, place: &AgentPosition) -> Value {
        self.writes += 1;
        let (key, source) = (self.one_of(&place.writes), self.read(place));
        let mut change = Map::new();
        match self.dice.roll(4) {
            0 => {
                change.insert(key, json!(source));
                json!({"copy": change})
            }
            1 => {
                change.insert(key, json!(self.writes));
                json!({"set": change})
            }
            _ => {
                change.insert(key, json!(format!("value {}", self.writes)));
                json!({"set": change})
            }
        }
    }

    fn read(&mut self, place: &AgentPosition) -> String {
        self.one_of(&place.reads)
    }

    fn one_of(&mut self, names: &[String]) -> String {
        let at = self.dice.roll(names.len() as u64);
        names[usize::try_from(at).unwrap()].clone()
    }
}
