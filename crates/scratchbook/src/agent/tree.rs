//! The agents of a runner by name, and which of them takes the next message.

use std::collections::HashMap;
use std::sync::Arc;

use super::Agent;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::session::Events;

/// A root agent and all agents below it, by name.
#[derive(Debug)]
pub(crate) struct AgentTree {
    root: Arc<dyn Agent>,
    nodes: HashMap<String, Node>,
}

#[derive(Debug)]
struct Node {
    agent: Arc<dyn Agent>,
    parent: Option<String>,
}

impl AgentTree {
    /// # Errors
    ///
    /// `InvalidArgument` for two agents of one name, an empty name, and an agent called `user`.
    pub(crate) fn new(root: Arc<dyn Agent>) -> Result<Self> {
        let mut nodes = HashMap::new();
        let mut waiting = vec![(Arc::clone(&root), None)];
        while let Some((agent, parent)) = waiting.pop() {
            let name = agent.name().to_owned();
            if name.is_empty() || name == "user" {
                return Err(Error::invalid(format!("an agent cannot be called '{name}'; give it a name of its own")));
            }
            waiting.extend(agent.sub_agents().iter().map(|sub| (Arc::clone(sub), Some(name.clone()))));
            if nodes.insert(name.clone(), Node { agent, parent }).is_some() {
                return Err(Error::invalid(format!("two agents are called '{name}'; give each a name of its own")));
            }
        }
        Ok(Self { root, nodes })
    }

    pub(crate) fn root(&self) -> &Arc<dyn Agent> {
        &self.root
    }

    /// The name of the agent above an agent.
    pub(crate) fn parent(&self, name: &str) -> Option<&str> {
        self.nodes.get(name)?.parent.as_deref()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn Agent>> {
        self.nodes.get(name).map(|node| &node.agent)
    }

    /// The agents that an agent may hand over to: those below it, the one above, and those beside it.
    pub(crate) fn transfer_targets(&self, name: &str) -> Vec<&Arc<dyn Agent>> {
        let Some(node) = self.nodes.get(name) else {
            return Vec::new();
        };
        let mut targets: Vec<_> = node.agent.sub_agents().iter().collect();
        let parent = node.parent.as_deref().and_then(|parent| self.find(parent));
        if let Some(parent) = parent.filter(|parent| parent.as_llm_agent().is_some()) {
            targets.push(parent);
            targets
                .extend(parent.sub_agents().iter().filter(|peer| peer.name() != name && peer.as_llm_agent().is_some()));
        }
        targets
    }

    /// The agent that takes the next message: the one whose call it answers, else the one that was handed
    /// the conversation last, else the root. The rule is ADK's.
    pub(crate) fn next_agent(&self, events: &Events) -> &Arc<dyn Agent> {
        if let Some(agent) = answered_author(events).and_then(|author| self.find(author)) {
            return agent;
        }
        for event in events.iter().rev().filter(|event| is_speech(event)) {
            let transferred = event.actions.transfer_to_agent.as_deref();
            let speaker = transferred.unwrap_or(&event.author);
            if speaker == self.root.name() {
                break;
            }
            if let Some(agent) = self.find(speaker).filter(|_| self.can_keep(speaker)) {
                return agent;
            }
        }
        &self.root
    }

    /// Whether an agent and all above it can be handed a conversation, so that it can be handed back.
    fn can_keep(&self, name: &str) -> bool {
        let mut at = Some(name);
        while let Some(node) = at.and_then(|name| self.nodes.get(name)) {
            if node.agent.as_llm_agent().is_none() {
                return false;
            }
            at = node.parent.as_deref();
        }
        true
    }
}

/// Whether an event says who has the conversation: not the user's, not a note of where an agent stands, not a
/// failure without content.
fn is_speech(event: &Event) -> bool {
    let note = event.actions.agent_state.is_some() || event.actions.end_of_agent == Some(true);
    event.author != "user" && !note && (event.content.is_some() || event.error_code.is_none())
}

/// Who made the call that the last event answers.
fn answered_author(events: &Events) -> Option<&str> {
    let last = events.last()?;
    let id = last.function_responses().next()?.id.as_deref()?;
    let calls = |event: &&Arc<Event>| event.function_calls().any(|call| call.id.as_deref() == Some(id));
    events.iter().rev().find(calls).map(|event| event.author.as_str())
}
