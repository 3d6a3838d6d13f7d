//! A run within a run: an agent that is a tool of another agent runs in a session of its own.

use std::sync::Arc;

use super::session_lock::SessionLocks;
use super::{Runner, RunnerCore};
use crate::agent::{AgentTree, InvocationContext};
use crate::plugin::Plugins;
use crate::trace::{RunTrace, SpanParent, TraceConfig};
use scratchbook_core::artifact::ArtifactService;
use scratchbook_core::session::SessionService;

/// The run around a run, whose trace the inner run joins.
#[derive(Debug)]
pub(crate) struct OuterRun {
    pub(super) trace: Arc<RunTrace>,
    pub(super) span: Option<Arc<SpanParent>>,
}

/// The agent and the services of a run within a run.
#[derive(Debug)]
pub(crate) struct NestedRun {
    pub(crate) tree: Arc<AgentTree>,
    pub(crate) sessions: Arc<dyn SessionService>,
    pub(crate) artifacts: Option<Arc<dyn ArtifactService>>,
    pub(crate) plugins: Arc<Plugins>,
}

impl Runner {
    /// Returns a runner for a run within the run of this context: it has the same app, clock and trace.
    pub(crate) fn nested(run: NestedRun, outer: &InvocationContext) -> Self {
        let NestedRun { tree, sessions, artifacts, plugins } = run;
        let inner = RunnerCore {
            app_name: outer.session_key().app_name().to_owned(),
            tree,
            sessions,
            artifacts,
            environment: outer.shared_environment(),
            auto_create_session: false,
            compactor: None,
            resumable: false,
            overrides: None,
            tracing: TraceConfig::default(),
            plugins,
            outer: Some(OuterRun { trace: Arc::clone(outer.trace()), span: outer.span_parent().cloned() }),
            locks: SessionLocks::default(),
        };
        Self { inner: Arc::new(inner) }
    }
}
