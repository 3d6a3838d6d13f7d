//! The tools of an agent: its own, and those that its toolsets list.

use std::sync::Arc;

use futures_util::future::try_join_all;

use super::LlmAgentDefinition;
use crate::agent::ReadonlyContext;
use crate::tool::{Tool, Toolset};
use scratchbook_core::error::Result;

/// A toolset of an agent, and its place among the agent's own tools.
#[derive(Debug)]
pub(super) struct PlacedToolset {
    /// How many of the agent's own tools come before the tools of the toolset.
    pub(super) place: usize,
    pub(super) toolset: Arc<dyn Toolset>,
}

impl LlmAgentDefinition {
    /// Returns whether the agent has tools or toolsets.
    pub(in crate::agent) fn has_tools(&self) -> bool {
        !self.tools.is_empty() || !self.toolsets.is_empty()
    }

    /// Returns the agent's own tools and those of its toolsets, in the order in which they were added.
    pub(in crate::agent) async fn list_tools(&self, context: &ReadonlyContext) -> Result<Vec<Arc<dyn Tool>>> {
        let asked = self.toolsets.iter().map(|placed| placed.toolset.get_tools(context));
        let listed = try_join_all(asked).await.map_err(|e| e.context(format!("the tools of agent '{}'", self.name)))?;
        let mut tools = Vec::with_capacity(self.tools.len());
        let mut own = self.tools.iter().cloned().enumerate().peekable();
        for (placed, listed) in self.toolsets.iter().zip(listed) {
            while let Some((_, tool)) = own.next_if(|(place, _)| *place < placed.place) {
                tools.push(tool);
            }
            tools.extend(listed);
        }
        tools.extend(own.map(|(_, tool)| tool));
        Ok(tools)
    }
}
