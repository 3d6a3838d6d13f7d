//! Spans that have begun. A span ends on drop, so it also ends if its run is dropped.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::StreamExt;
use serde_json::{Map, Value};
use tracing::field::Empty;
use tracing::{Span, info_span};

use super::{TARGET, TraceConfig, TraceSink, TraceSpan, messages};
use crate::agent::{Agent, EventStream, InvocationContext, run_agent};
use crate::model::{LlmRequest, LlmResponse};
use scratchbook_core::environment::Environment;
use scratchbook_core::error::Error;
use scratchbook_core::event::Event;
use scratchbook_core::session::SessionKey;

/// The trace of a run. It includes the runs of agents that are called as tools.
#[derive(Debug)]
pub(crate) struct RunTrace {
    config: TraceConfig,
    session: SessionKey,
    invocation_id: String,
    trace_id: u128,
    /// The number of spans so far, from which span ids are made.
    next: AtomicU64,
}

impl RunTrace {
    pub(crate) fn new(config: TraceConfig, session: SessionKey, invocation_id: String) -> Self {
        // Ids have to differ from all other ids of this process and of other processes. They need not be unpredictable.
        let random = || u128::from(RandomState::new().hash_one(0_u8));
        let trace_id = if config.sink.is_some() { random() << 64 | random() } else { 0 };
        Self { config, session, invocation_id, trace_id, next: AtomicU64::new(0) }
    }

    fn next_id(&self) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        // Spreads the number over all 64 bits, as OpenTelemetry's ids are.
        (self.trace_id as u64 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1)
    }
}

/// A span that contains other spans.
#[derive(Clone, Debug)]
pub(crate) struct SpanParent {
    span_id: u64,
    span: Span,
}

/// A span that has begun.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    span: Span,
    /// The span's record for the sink, if there is a sink.
    recorded: Option<RecordedSpan>,
    exports_texts: bool,
}

/// A span for a sink.
#[derive(Debug)]
struct RecordedSpan {
    sink: Arc<dyn TraceSink>,
    environment: Arc<dyn Environment>,
    span: Box<TraceSpan>,
    has_ended: bool,
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        self.end();
        if let Some(RecordedSpan { sink, span, .. }) = self.recorded.take() {
            sink.record(*span);
        }
    }
}

impl OpenSpan {
    /// Begins a span for an operation. The name is that of the agent, the model or the tool.
    fn begin(context: &InvocationContext, operation: &'static str, name: &str) -> Self {
        let trace = context.trace();
        let parent = context.span_parent();
        let whole = format!("{operation} {name}");
        let outer = parent.map_or_else(Span::current, |parent| parent.span.clone());
        let span = info_span!(
            target: TARGET,
            parent: &outer,
            "gen_ai",
            otel.name = whole,
            otel.status_code = Empty,
            gen_ai.operation.name = operation,
            gen_ai.agent.name = context.agent_name(),
            gen_ai.agent.description = Empty,
            gen_ai.conversation.id = Empty,
            gen_ai.request.model = Empty,
            gen_ai.response.finish_reasons = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.tool.name = Empty,
            gen_ai.tool.description = Empty,
            gen_ai.tool.call.id = Empty,
            gen_ai.input.messages = Empty,
            gen_ai.output.messages = Empty,
            "error.type" = Empty,
        );
        let key = &trace.session;
        if trace.config.exported.session_ids {
            span.record("gen_ai.conversation.id", key.session_id());
        }
        let recorded = trace.config.sink.as_ref().map(|sink| {
            let attributes = Map::from_iter([
                ("gen_ai.operation.name".to_owned(), Value::from(operation)),
                ("gen_ai.agent.name".to_owned(), context.agent_name().into()),
                ("gen_ai.conversation.id".to_owned(), key.session_id().into()),
                ("gcp.vertex.agent.invocation_id".to_owned(), trace.invocation_id.as_str().into()),
            ]);
            let now = context.environment().now();
            let span = TraceSpan {
                session: key.clone(),
                invocation_id: trace.invocation_id.clone(),
                name: whole,
                trace_id: trace.trace_id,
                span_id: trace.next_id(),
                parent_span_id: parent.map(|parent| parent.span_id),
                start_time: now,
                end_time: now,
                attributes,
                texts: Map::new(),
            };
            let environment = context.shared_environment();
            RecordedSpan { sink: Arc::clone(sink), environment, span: Box::new(span), has_ended: false }
        });
        Self { span, recorded, exports_texts: trace.config.exported.texts }
    }

    /// Begins the span of an agent's turn.
    pub(crate) fn of_agent(agent: &dyn Agent, context: &InvocationContext) -> Self {
        let mut span = Self::begin(&context.for_agent(agent.name()), "invoke_agent", agent.name());
        if !agent.description().is_empty() {
            span.set("gen_ai.agent.description", agent.description().into());
        }
        span
    }

    /// Begins the span of a model call.
    pub(crate) fn of_model(context: &InvocationContext, request: &LlmRequest) -> Self {
        let mut span = Self::begin(context, "generate_content", &request.model);
        span.set("gen_ai.request.model", request.model.as_str().into());
        if span.recorded.is_some() || span.exports() {
            let texts = messages::of_request(request, context.run_config().secrets_in_templates);
            if span.exports()
                && let Some(input) = texts.get("gen_ai.input.messages")
            {
                span.span.record("gen_ai.input.messages", input.to_string());
            }
            if let Some(recorded) = &mut span.recorded {
                recorded.span.texts = texts;
            }
        }
        span
    }

    /// Begins the span of a tool call.
    pub(crate) fn of_tool(context: &InvocationContext, name: &str, description: Option<&str>, call_id: &str) -> Self {
        let mut span = Self::begin(context, "execute_tool", name);
        span.set("gen_ai.tool.name", name.into());
        if let Some(description) = description {
            span.set("gen_ai.tool.description", description.into());
        }
        span.set("gen_ai.tool.call.id", call_id.into());
        span
    }

    /// Returns this span as the parent of other spans.
    pub(crate) fn as_parent(&self) -> SpanParent {
        let span_id = self.recorded.as_ref().map_or(0, |recorded| recorded.span.span_id);
        SpanParent { span_id, span: self.span.clone() }
    }

    /// Returns the `tracing` span, for code that runs within it.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Records the whole answer of a model.
    pub(crate) fn answered(&mut self, response: &LlmResponse) {
        if let Some(reason) = &response.finish_reason {
            let reason = reason.to_lowercase();
            self.span.record("gen_ai.response.finish_reasons", reason.as_str());
            self.keep("gen_ai.response.finish_reasons", Value::Array(vec![reason.into()]));
        }
        let tokens = |name: &str| response.usage_metadata.as_ref()?.get(name)?.as_u64();
        for (name, of) in
            [("gen_ai.usage.input_tokens", "promptTokenCount"), ("gen_ai.usage.output_tokens", "candidatesTokenCount")]
        {
            if let Some(count) = tokens(of) {
                self.set(name, count.into());
            }
        }
        if let Some(code) = &response.error_code {
            self.set("error.type", code.as_str().into());
        }
        if self.recorded.is_some() || self.exports() {
            let output = messages::of_response(response);
            if self.exports() {
                self.span.record("gen_ai.output.messages", output.to_string());
            }
            if let Some(recorded) = &mut self.recorded {
                recorded.span.texts.insert("gen_ai.output.messages".to_owned(), output);
            }
        }
    }

    /// Records the end time of the span. More data can still be added to it.
    pub(crate) fn end(&mut self) {
        if let Some(recorded) = self.recorded.as_mut().filter(|recorded| !recorded.has_ended) {
            recorded.span.end_time = recorded.environment.now();
            recorded.has_ended = true;
        }
    }

    /// Records the id of the event that contains the result.
    pub(crate) fn told_by(&mut self, event: &Event) {
        self.keep("gcp.vertex.agent.event_id", event.id.as_str().into());
    }

    /// Records a failure by its kind only, since a message may quote the conversation.
    pub(crate) fn failed(&mut self, error: &Error) {
        self.span.record("otel.status_code", "ERROR");
        self.set("error.type", error.public_kind().as_str().into());
    }

    fn exports(&self) -> bool {
        self.exports_texts && !self.span.is_disabled()
    }

    /// Sets an attribute in the record for the sink and in the `tracing` span.
    fn set(&mut self, name: &'static str, value: Value) {
        match (&value, value.as_u64()) {
            (_, Some(number)) => self.span.record(name, number),
            (Value::String(text), _) => self.span.record(name, text.as_str()),
            _ => &self.span,
        };
        self.keep(name, value);
    }

    fn keep(&mut self, name: &str, value: Value) {
        if let Some(recorded) = &mut self.recorded {
            recorded.span.attributes.insert(name.to_owned(), value);
        }
    }
}

/// Runs an agent's turn within a separate span.
pub(crate) fn run(agent: &Arc<dyn Agent>, context: &InvocationContext) -> EventStream {
    let mut span = OpenSpan::of_agent(agent.as_ref(), context);
    let events = run_agent(agent, context.within(&span));
    Box::pin(events.map(move |item| item.inspect_err(|error| span.failed(error))))
}
