//! Records a run as spans: its agents, model calls and tool calls, with their times, in the terms of OpenTelemetry's
//! conventions for generative AI.
//!
//! Each span is sent to two places. A [`TraceSink`] that you provide receives it with the texts of model calls. It is
//! also a `tracing` span with the target [`TARGET`], which `tracing-opentelemetry` can export. Exported spans contain
//! session ids and texts only if [`TraceConfig`] says so.

mod messages;
mod open;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use scratchbook_core::session::SessionKey;

pub(crate) use open::{OpenSpan, RunTrace, SpanParent, run};

/// The target of the `tracing` spans.
pub const TARGET: &str = "scratchbook_agent::trace";

/// Receives each span of a run when the span ends.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use futures_util::TryStreamExt;
/// use scratchbook::agent::{TraceConfig, TraceSink, TraceSpan};
/// use scratchbook::prelude::*;
///
/// #[derive(Debug, Default)]
/// struct Names(Mutex<Vec<String>>);
///
/// impl TraceSink for Names {
///     fn record(&self, span: TraceSpan) {
///         self.0.lock().unwrap().push(span.name);
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let agent = LlmAgent::builder("clerk").model(ScriptedLlm::new([LlmResponse::text("Hello!")])).build()?;
/// let names = Arc::new(Names::default());
/// let sink: Arc<dyn TraceSink> = names.clone();
/// let runner = Runner::builder("shop", agent, InMemorySessionService::new())
///     .auto_create_session()
///     .tracing(TraceConfig::default().with_sink(sink))
///     .build()?;
/// let _events: Vec<_> = runner.run("alice", "s1", "Hi").try_collect().await?;
/// assert_eq!(*names.0.lock().unwrap(), ["generate_content scripted", "invoke_agent clerk"]);
/// # Ok(()) }
/// ```
pub trait TraceSink: fmt::Debug + Send + Sync + 'static {
    /// Receives a span that has ended. This is called within the run, so it must not block.
    fn record(&self, span: TraceSpan);
}

/// A part of a run that has ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TraceSpan {
    /// The session of the run.
    pub session: SessionKey,
    /// The run's id.
    pub invocation_id: String,
    /// The operation, and the agent, model or tool: `invoke_agent NAME`, `generate_content MODEL`, `execute_tool NAME`.
    pub name: String,
    /// The id of the trace. All spans of a run share it.
    pub trace_id: u128,
    /// The id of the span.
    pub span_id: u64,
    /// The id of the span that contains this one; `None` for the first agent of a run.
    pub parent_span_id: Option<u64>,
    /// When the span began, in seconds since 1970.
    pub start_time: f64,
    /// When the span ended, in seconds since 1970.
    pub end_time: f64,
    /// The attributes, under the names of OpenTelemetry and ADK: `gen_ai.operation.name`, `gen_ai.usage.input_tokens`,
    /// `gcp.vertex.agent.event_id`.
    pub attributes: Map<String, Value>,
    /// The request and the answer of a model call: `gen_ai.input.messages`, `gen_ai.system_instructions`,
    /// `gen_ai.tool.definitions` and `gen_ai.output.messages`. If the request is long, only its last messages are kept.
    pub texts: Map<String, Value>,
}

/// Where the spans of runs are sent, and what exported spans contain.
#[derive(Clone, Debug, Default)]
pub struct TraceConfig {
    sink: Option<Arc<dyn TraceSink>>,
    exported: Exported,
}

/// The data that exported spans contain in addition to names, times and counts.
#[derive(Clone, Copy, Debug, Default)]
struct Exported {
    session_ids: bool,
    texts: bool,
}

impl TraceConfig {
    /// Sends every span to a sink.
    #[must_use]
    pub fn with_sink(mut self, sink: Arc<dyn TraceSink>) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Adds the session's id to exported spans, as `gen_ai.conversation.id`.
    #[must_use]
    pub fn with_session_ids(mut self) -> Self {
        self.exported.session_ids = true;
        self
    }

    /// Adds the texts of model calls to exported spans, as `gen_ai.input.messages` and `gen_ai.output.messages`.
    #[must_use]
    pub fn with_texts(mut self) -> Self {
        self.exported.texts = true;
        self
    }
}
