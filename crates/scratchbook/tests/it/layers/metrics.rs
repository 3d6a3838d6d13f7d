//! Spans and numbers of calls: counts and sizes, no values and no users.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use scratchbook::layer::WithMetrics;
use scratchbook::{AppendOptions, CreateSessionConfig, Event, SessionKey, SessionService};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber, subscriber};

use super::{append, delta, memory};

/// Keeps the fields of all spans as text.
#[derive(Clone, Default)]
struct SpanFields(Arc<Mutex<String>>);

impl Visit for SpanFields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0.lock().unwrap(), "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for SpanFields {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

async fn calls(service: &impl SessionService) {
    let config = CreateSessionConfig::default().with_session_id("s").with_state(json!({"a": "hunter2"}));
    let session = service.create_session("app", "alice", config).await.unwrap();
    let changes = delta(json!({"a": "hunter2", "user:b": "hunter2"})).with_append("list", "hunter2").unwrap();
    append(service, session.key(), Event::new("agent").with_content("hunter2").with_state_delta(changes)).await;
    super::read(service, session.key()).await;
    let missing = SessionKey::new("app", "alice", "none").unwrap();
    service.append(&missing, Event::new("agent"), AppendOptions::default()).await.unwrap_err();
}

#[tokio::test]
async fn spans_have_counts_and_sizes_and_no_values() {
    let spans = SpanFields::default();
    let _guard = subscriber::set_default(spans.clone());
    calls(&WithMetrics::new(memory())).await;
    let told = std::mem::take(&mut *spans.0.lock().unwrap());
    for part in ["operation=\"append\"", "app=\"app\"", "keys=3", "events=1", "bytes=", "outcome=\"ok\"", "items=1"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    assert!(told.contains("outcome=\"not_found\""), "{told}");
    assert!(!told.contains("hunter2") && !told.contains("alice"), "{told}");
    calls(&WithMetrics::new(memory()).with_user_ids()).await;
    let told = std::mem::take(&mut *spans.0.lock().unwrap());
    assert!(told.contains("user=\"alice\"") && !told.contains("hunter2"), "{told}");
    calls(&WithMetrics::new(memory()).with_apps(["shop"])).await;
    let told = spans.0.lock().unwrap().clone();
    assert!(told.contains("app=\"other\"") && !told.contains("app=\"app\""), "{told}");
}

#[cfg(feature = "metrics")]
pub(crate) mod facade {
    use metrics::{
        Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };

    use super::*;

    /// The counters, by name and labels.
    #[derive(Clone, Default)]
    pub(crate) struct RecordedCounters(Arc<Mutex<BTreeMap<String, f64>>>);

    struct One(RecordedCounters, String);

    impl One {
        fn add(&self, more: f64) {
            *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += more;
        }
    }

    impl CounterFn for One {
        fn increment(&self, value: u64) {
            self.add(value as f64);
        }
        fn absolute(&self, _: u64) {}
    }

    impl HistogramFn for One {
        fn record(&self, _: f64) {
            self.add(1.0);
        }
    }

    impl RecordedCounters {
        /// Returns the number of calls of an operation on an app.
        pub(crate) fn calls(&self, operation: &str, app: &str) -> f64 {
            let name = format!("scratchbook_calls_total operation={operation} app={app} ");
            self.0.lock().unwrap().iter().filter(|(key, _)| key.starts_with(&name)).map(|(_, count)| count).sum()
        }

        fn one(&self, key: &Key) -> Arc<One> {
            let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            Arc::new(One(self.clone(), format!("{} {}", key.name(), labels.join(" "))))
        }
    }

    impl Recorder for RecordedCounters {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.one(key))
        }
        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }
        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::from_arc(self.one(key))
        }
    }

    #[test]
    fn calls_are_counted_through_the_facade() {
        let counts = RecordedCounters::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        metrics::with_local_recorder(&counts, || runtime.block_on(calls(&WithMetrics::new(memory()))));
        let counts = counts.0.lock().unwrap().clone();
        let of = |name: &str| counts.get(name).copied().unwrap_or_default();
        for (outcome, count) in [("ok", 1.0), ("not_found", 1.0)] {
            let labels = format!("operation=append app=app outcome={outcome}");
            assert_eq!(of(&format!("scratchbook_calls_total {labels}")), count, "{counts:?}");
            assert_eq!(of(&format!("scratchbook_call_seconds {labels}")), count, "{counts:?}");
        }
        assert!(of("scratchbook_written_bytes_total operation=append app=app") > 100.0, "{counts:?}");
        assert_eq!(of("scratchbook_items_total operation=get_session app=app"), 1.0, "{counts:?}");
        let told = format!("{counts:?}");
        assert!(!told.contains("alice") && !told.contains("hunter2"), "{told}");
    }
}
