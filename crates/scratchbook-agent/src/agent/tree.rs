//! The agents of a runner by name. They determine which agent receives the next message.

use std::collections::HashMap;
use std::sync::Arc;

use super::history::live_backward;
use super::{Agent, LlmAgent};
use crate::instruction::is_identifier;
use crate::model::Llm;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::Events;

/// A root agent and all agents below it, by name.
#[derive(Debug)]
pub(crate) struct AgentTree {
    root: Arc<dyn Agent>,
    nodes: HashMap<String, TreeEntry>,
}

#[derive(Debug)]
struct TreeEntry {
    agent: Arc<dyn Agent>,
    parent: Option<String>,
}

impl AgentTree {
    /// # Errors
    ///
    /// `InvalidArgument` if two agents have the same name, if a name is not an identifier or is `user`, or if an agent
    /// needs a model and neither it nor an agent above it has one.
    pub(crate) fn new(root: Arc<dyn Agent>) -> Result<Self> {
        let mut nodes = HashMap::new();
        let mut waiting = vec![(Arc::clone(&root), None, false)];
        while let Some((agent, parent, model_above)) = waiting.pop() {
            let name = agent.name().to_owned();
            check_agent_name(&name)?;
            let asks = agent.as_llm_agent();
            let has_model = model_above || asks.is_some_and(|agent| agent.model().is_some());
            if asks.is_some() && !has_model {
                let message = format!("the agent '{name}' has no model, nor has an agent above it; give it one");
                return Err(Error::invalid(message));
            }
            waiting.extend(agent.sub_agents().iter().map(|sub| (Arc::clone(sub), Some(name.clone()), has_model)));
            if nodes.insert(name.clone(), TreeEntry { agent, parent }).is_some() {
                return Err(Error::invalid(format!("two agents are called '{name}'; give each a name of its own")));
            }
        }
        Ok(Self { root, nodes })
    }

    pub(crate) fn root(&self) -> &Arc<dyn Agent> {
        &self.root
    }

    /// Returns the name of the agent directly above an agent.
    pub(crate) fn parent(&self, name: &str) -> Option<&str> {
        self.nodes.get(name)?.parent.as_deref()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<dyn Agent>> {
        self.nodes.get(name).map(|node| &node.agent)
    }

    /// Returns the names of all agents, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.nodes.keys().cloned().collect();
        names.sort();
        names
    }

    /// Returns the model of the nearest agent above that has one.
    pub(crate) fn model_above(&self, name: &str) -> Option<Arc<dyn Llm>> {
        let above = std::iter::successors(self.parent(name), |name| self.parent(name));
        above.filter_map(|name| self.find(name)?.as_llm_agent()?.model()).next().cloned()
    }

    /// Returns the agents that an agent may hand over to: those below it, the one above it, and its siblings. Only
    /// agents with models hand over. An agent can hand over to its parent or siblings only if the parent has a model,
    /// too.
    pub(crate) fn transfer_targets(&self, name: &str) -> Vec<&Arc<dyn Agent>> {
        let Some((node, agent)) = self.nodes.get(name).and_then(|node| Some((node, node.agent.as_llm_agent()?))) else {
            return Vec::new();
        };
        let mut targets: Vec<_> = node.agent.sub_agents().iter().collect();
        let parent = node.parent.as_deref().and_then(|parent| self.find(parent));
        if let Some(parent) = parent.filter(|parent| parent.as_llm_agent().is_some()) {
            targets.extend(agent.hands_to_parent().then_some(parent));
            let peers = parent.sub_agents().iter().filter(|peer| agent.hands_to_peers() && peer.name() != name);
            targets.extend(peers);
        }
        targets
    }

    /// Returns the agent that receives the next message. This is the agent whose call the message answers, or else the
    /// agent that received the conversation last, or else the root. The rule is ADK's.
    pub(crate) fn next_agent(&self, events: &Events) -> &Arc<dyn Agent> {
        let answered = answered_author(events).and_then(|author| self.find(author));
        answered.or_else(|| self.last_speaker(events)).unwrap_or(&self.root)
    }

    /// Returns whether these events alone, without earlier ones, determine which agent receives the next message.
    pub(crate) fn decides(&self, events: &Events) -> bool {
        self.root.as_llm_agent().is_none()
            || self.nodes.len() == 1
            || self.last_word(events).is_some_and(|(event, _)| begins_within(event, events))
    }

    /// Returns the agent that has the conversation, if the events determine it.
    fn last_speaker(&self, events: &Events) -> Option<&Arc<dyn Agent>> {
        self.last_word(events).map(|(_, agent)| agent)
    }

    /// Returns the event that determines which agent has the conversation, and that agent.
    fn last_word<'e>(&self, events: &'e Events) -> Option<(&'e Event, &Arc<dyn Agent>)> {
        let mut earlier = live_backward(events).filter(|event| is_speech(event));
        while let Some(event) = earlier.next() {
            let event: &'e Event = event;
            if self.nodes.len() > 1 && follows_own_handover(event, earlier.clone()) {
                continue;
            }
            let handed_to = event.actions.transfer_to_agent.as_deref();
            if let Some(agent) = handed_to.and_then(|target| self.target(&event.author, target)) {
                return Some((event, agent));
            }
            if event.author == self.root.name() {
                return Some((event, &self.root));
            }
            if let Some(agent) = self.find(&event.author).filter(|_| self.can_keep(&event.author)) {
                return Some((event, agent));
            }
        }
        None
    }

    /// Returns the agent `name`, if `from` may hand the conversation to this agent, and if the agent may also receive
    /// the user's next message.
    fn target(&self, from: &str, name: &str) -> Option<&Arc<dyn Agent>> {
        let targets = self.transfer_targets(from);
        targets.into_iter().find(|agent| agent.name() == name).filter(|_| self.can_keep(name))
    }

    /// Returns whether an agent can keep the conversation. It can if it and all agents above it can hand the
    /// conversation back to their parents.
    fn can_keep(&self, name: &str) -> bool {
        let mut at = Some(name);
        while let Some(node) = at.and_then(|name| self.nodes.get(name)) {
            if !node.agent.as_llm_agent().is_some_and(LlmAgent::hands_to_parent) {
                return false;
            }
            at = node.parent.as_deref();
        }
        true
    }
}

/// Refuses invalid agent names. The rule is ADK's: names are used in branches, paths and calls.
///
/// # Errors
///
/// `InvalidArgument` if the name is not an identifier or is `user`.
pub(super) fn check_agent_name(name: &str) -> Result<()> {
    if name == "user" {
        return Err(Error::invalid("an agent cannot be called 'user', as the user's events are; give it another name"));
    }
    if !is_identifier(name) {
        let message = format!(
            "an agent cannot be called '{name}'; a name is an identifier: letters, digits and underscores, no digit first"
        );
        return Err(Error::invalid(message));
    }
    Ok(())
}

/// Returns whether an event determines which agent has the conversation. Events of the user, checkpoints, failures
/// without content and reports of an aborted run do not.
fn is_speech(event: &Event) -> bool {
    let note = event.actions.agent_state.is_some() || event.actions.end_of_agent == Some(true);
    let failure = match event.error_code.as_deref() {
        None | Some("") => false,
        Some("INVOCATION_ABORTED") => true,
        Some(_) => event.content.as_ref().is_none_or(|content| content.parts().is_empty()),
    };
    event.author != "user" && !note && !failure
}

/// Returns whether callbacks added the event after the turn of an agent that had already handed over. In that case,
/// another agent has the conversation.
fn follows_own_handover<'e>(event: &Event, earlier: impl Iterator<Item = &'e Arc<Event>>) -> bool {
    let mut of_run = earlier.take_while(|earlier| earlier.invocation_id == event.invocation_id);
    let own = of_run.find_map(|earlier| {
        let target = earlier.actions.transfer_to_agent.as_deref()?;
        (earlier.author == event.author).then_some(true).or_else(|| (target == event.author).then_some(false))
    });
    event.actions.transfer_to_agent.is_none() && own == Some(true)
}

/// Returns whether the beginning of an event's run is among these events.
fn begins_within(event: &Event, events: &Events) -> bool {
    let first = events.iter().enumerate().find(|(_, first)| first.invocation_id == event.invocation_id);
    first.is_some_and(|(place, first)| place > 0 || first.author == "user")
}

/// Returns the author of the call that the last event answers.
fn answered_author(events: &Events) -> Option<&str> {
    // A summary that was made during a run does not count.
    let mut live = live_backward(events).filter(|event| event.actions.compaction.is_none());
    let id = live.next()?.function_responses().next()?.id.as_deref()?;
    let calls = |event: &&Arc<Event>| event.function_calls().any(|call| call.id.as_deref() == Some(id));
    live.find(calls).map(|event| event.author.as_str())
}
