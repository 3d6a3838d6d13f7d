//! The position of an agent's turn among the turns of a run: ADK's node path.
//!
//! If the root is an [`LlmAgent`](super::LlmAgent), `root@1/helper@2` is the second turn of `helper` within the first
//! turn of `root`. A workflow agent is one node together with all the agents it runs. If the root is not an `LlmAgent`,
//! there are no nodes. The numbers follow ADK's rule.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::AgentTree;

/// A turn, linked to the turn of the agent above.
#[derive(Debug)]
pub(crate) struct TurnNode {
    name: String,
    path: String,
    above: Option<Arc<Self>>,
}

impl TurnNode {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    fn new(name: &str, turn: u64, above: Option<Arc<Self>>) -> Arc<Self> {
        let path =
            format!("{}{name}@{turn}", above.as_ref().map(|above| format!("{}/", above.path)).unwrap_or_default());
        Arc::new(Self { name: name.to_owned(), path, above })
    }

    /// Returns the first turn of an agent, below the first turns of all agents above it.
    fn first(tree: &AgentTree, name: &str) -> Arc<Self> {
        let names: Vec<_> = std::iter::successors(Some(name), |name| tree.parent(name)).collect();
        let above = names[1..].iter().rev().fold(None, |above, name| Some(Self::new(name, 1, above)));
        Self::new(name, 1, above)
    }

    /// Returns the nearest turn that belongs to an agent: this turn or one above it.
    fn nearest(self: &Arc<Self>, name: &str) -> Option<&Arc<Self>> {
        std::iter::successors(Some(self), |node| node.above.as_ref()).find(|node| node.name == name)
    }
}

/// How many turns each agent has had in a run, below each turn of the agent above it.
#[derive(Debug, Default)]
pub(crate) struct TurnCounts(Mutex<HashMap<(Option<String>, String), u64>>);

impl TurnCounts {
    /// Counts and returns the turn with which a run begins. If it is not the root's, a turn of the root is counted as
    /// well.
    pub(crate) fn begin(&self, tree: &AgentTree, name: &str) -> Option<Arc<TurnNode>> {
        let root = tree.root();
        root.as_llm_agent()?;
        let node = TurnNode::first(tree, name);
        if name != root.name() {
            self.count(None, root.name());
        }
        self.count(node.above.as_deref(), name);
        Some(node)
    }

    /// Counts and returns the turn of the agent `name`, to which the turn `from` hands over the conversation.
    pub(crate) fn next(&self, tree: &AgentTree, from: &Arc<TurnNode>, name: &str) -> Arc<TurnNode> {
        // The turn above the new one is usually in the path of `from`: the parent is the agent of `from`, has handed
        // over to it, or is above both. Only a tool of the application can hand over otherwise.
        let above = tree
            .parent(name)
            .map(|parent| from.nearest(parent).map_or_else(|| TurnNode::first(tree, parent), Arc::clone));
        let turn = self.count(above.as_deref(), name);
        TurnNode::new(name, turn, above)
    }

    fn count(&self, above: Option<&TurnNode>, name: &str) -> u64 {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = turns.entry((above.map(|above| above.path.clone()), name.to_owned())).or_default();
        *count += 1;
        *count
    }
}
