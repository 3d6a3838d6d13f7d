//! What ends together of agents that run in parallel: the layers of their pending writes, and their tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::InvocationContext;

/// The layers of the agents that one parallel agent runs, and of all that those run.
#[derive(Debug)]
pub(crate) struct LayerGroup {
    within: Option<Arc<Self>>,
    is_closed: AtomicBool,
    /// Each task of the group, and of the groups within it, has a receiver.
    tasks: watch::Sender<()>,
}

/// What a task holds as long as it runs, so that its group and those around it can wait for its end.
#[derive(Debug)]
pub(super) struct Running {
    _groups: Vec<watch::Receiver<()>>,
}

impl LayerGroup {
    /// A group of layers within another.
    pub(super) fn within(outer: Option<&Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { within: outer.cloned(), is_closed: AtomicBool::default(), tasks: watch::Sender::default() })
    }

    /// Whether this group is closed, or one that it is within.
    pub(super) fn is_closed(&self) -> bool {
        self.and_outer().any(|group| group.is_closed.load(Ordering::Relaxed))
    }

    /// For a task that is begun in this group.
    pub(super) fn begin(&self) -> Running {
        Running { _groups: self.and_outer().map(|group| group.tasks.subscribe()).collect() }
    }

    /// Waits until no task of this group runs, nor one of the groups within it.
    pub(super) async fn ended(&self) {
        self.tasks.closed().await;
    }

    fn and_outer(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |group| group.within.as_deref())
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
