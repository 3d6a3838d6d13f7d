//! Measures single paths with criterion, for work on one of them.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "criterion's macros; a bench that cannot run has nothing to report"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use scratchbook::agent::InstructionTemplate;
use scratchbook::store::Synchronous;
use scratchbook::{AppendOptions, Event, GetSessionConfig, InMemorySessionService, SessionService, StateMap};
use scratchbook_benches::{event, runtime, session, sqlite};
use serde_json::json;

fn pure(c: &mut Criterion) {
    let text = serde_json::to_string(&event(1)).unwrap();
    c.bench_function("event from JSON", |b| b.iter(|| Event::from_json(&text).unwrap()));
    let template = format!("{}{{name}} {{user:profile.city}} {{{{\"json\": 1}}}}", "Some instruction. ".repeat(100));
    c.bench_function("template parse, 2 kB", |b| b.iter(|| InstructionTemplate::parse(&template)));
    let parsed = InstructionTemplate::parse(&template);
    let state = json!({"name": "Ada", "user:profile": {"city": "London"}});
    let state = StateMap::from(state.as_object().unwrap().clone());
    c.bench_function("template render, 2 kB", |b| b.iter(|| parsed.render(&state).unwrap()));
}

fn memory(c: &mut Criterion) {
    let runtime = runtime();
    let service = InMemorySessionService::new();
    let key = runtime.block_on(session(&service, "s", 1000, 10));
    let config = GetSessionConfig::default();
    c.bench_function("memory get, 1,000 events", |b| {
        b.iter(|| runtime.block_on(service.get_session(&key, &config)).unwrap());
    });
    c.bench_function("memory append", |b| {
        b.iter(|| runtime.block_on(service.append(&key, event(1), AppendOptions::default())).unwrap());
    });
}

fn files(c: &mut Criterion) {
    let (runtime, folder) = (runtime(), tempfile::tempdir().unwrap());
    let service = runtime.block_on(sqlite(&folder.path().join("bench.db"), Synchronous::Full));
    let key = runtime.block_on(session(service.as_ref(), "s", 1000, 10));
    let config = GetSessionConfig::default().with_num_recent_events(10);
    c.bench_function("SQLite get, the last 10 events", |b| {
        b.iter(|| runtime.block_on(service.get_session(&key, &config)).unwrap());
    });
    c.bench_function("SQLite append, one writer at FULL", |b| {
        b.iter(|| runtime.block_on(service.append(&key, event(1), AppendOptions::default())).unwrap());
    });
}

criterion_group!(benches, pure, memory, files);
criterion_main!(benches);
