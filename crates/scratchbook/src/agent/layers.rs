//! Layers of pending writes that end together: those of agents that run in parallel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::InvocationContext;

/// The layers of the agents that one parallel agent runs, and of all that those run.
#[derive(Debug)]
pub(crate) struct LayerGroup {
    within: Option<Arc<Self>>,
    is_closed: AtomicBool,
}

impl LayerGroup {
    /// A group of layers within another.
    pub(super) fn within(outer: Option<&Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { within: outer.cloned(), is_closed: AtomicBool::default() })
    }

    /// Whether this group is closed, or one that it is within.
    pub(super) fn is_closed(&self) -> bool {
        let mut groups = std::iter::successors(Some(self), |group| group.within.as_deref());
        groups.any(|group| group.is_closed.load(Ordering::Relaxed))
    }

    /// Only the board calls this, under its lock.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

/// Closes a group when it is dropped, so that its writes are gone even while its agents are still stopping.
#[derive(Debug)]
pub(super) struct GroupGuard {
    context: InvocationContext,
    group: Arc<LayerGroup>,
}

impl GroupGuard {
    /// A group for the agents that an agent runs in parallel.
    pub(super) fn new(context: &InvocationContext) -> Self {
        Self { context: context.clone(), group: LayerGroup::within(context.layer_group()) }
    }

    pub(super) fn group(&self) -> &Arc<LayerGroup> {
        &self.group
    }
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        self.context.board().close(&self.group);
    }
}
