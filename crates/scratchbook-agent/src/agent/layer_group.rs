//! Groups of agents that run in parallel. The tasks of a group and the layers of its pending changes end together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::InvocationContext;

/// The layers of all agents that one parallel agent runs, directly or through other agents.
#[derive(Debug)]
pub(crate) struct LayerGroup {
    within: Option<Arc<Self>>,
    is_closed: AtomicBool,
    /// Each running task of this group, or of a group inside it, holds a receiver of this channel.
    tasks: watch::Sender<()>,
}

/// A guard that a task holds while it runs. The task's group and the groups around it wait until the guard is dropped.
#[derive(Debug)]
pub(super) struct RunningTask {
    _groups: Vec<watch::Receiver<()>>,
}

impl LayerGroup {
    /// Creates a group inside another group.
    pub(super) fn within(outer: Option<&Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { within: outer.cloned(), is_closed: AtomicBool::default(), tasks: watch::Sender::default() })
    }

    /// Returns whether this group or a group around it is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.and_outer().any(|group| group.is_closed.load(Ordering::Relaxed))
    }

    /// Registers a task that starts in this group.
    pub(super) fn begin(&self) -> RunningTask {
        RunningTask { _groups: self.and_outer().map(|group| group.tasks.subscribe()).collect() }
    }

    /// Waits until every task of this group and of the groups inside it has ended.
    pub(super) async fn ended(&self) {
        self.tasks.closed().await;
    }

    fn and_outer(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |group| group.within.as_deref())
    }

    /// Marks the group as closed. Only [`InvocationState`](super::InvocationState) calls this, under its lock.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

/// Closes a group on drop, so that the group's changes are gone even while its agents are still stopping.
#[derive(Debug)]
pub(super) struct GroupGuard {
    context: InvocationContext,
    group: Arc<LayerGroup>,
}

impl GroupGuard {
    /// Creates a group for the agents that an agent runs in parallel.
    pub(super) fn new(context: &InvocationContext) -> Self {
        Self { context: context.clone(), group: LayerGroup::within(context.layer_group()) }
    }

    pub(super) fn group(&self) -> &Arc<LayerGroup> {
        &self.group
    }
}

impl Drop for GroupGuard {
    fn drop(&mut self) {
        self.context.invocation_state().close(&self.group);
    }
}
