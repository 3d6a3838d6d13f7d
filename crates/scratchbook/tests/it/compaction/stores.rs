//! The promises of summaries, on every store.

use super::*;
use scratchbook::{CreateSessionConfig, GetSessionConfig, Store};

fn runner_on(store: &Store, model: &ScriptedLlm, config: EventsCompactionConfig, read: &Arc<AtomicUsize>) -> Runner {
    let read = Arc::clone(read);
    let agent = LlmAgent::builder("agent").model(model.clone()).before_agent(move |context| {
        // The message is not counted.
        read.store(context.session().events().len() - 1, Ordering::Relaxed);
        async { Ok(None) }
    });
    let sessions = Arc::clone(&store.sessions);
    Runner::builder("app", agent.build().unwrap(), sessions).events_compaction(config).build().unwrap()
}

/// Creates a session of this many invocations, each with a message and an answer.
async fn session(store: &Store, invocations: usize) {
    let events = (0..invocations).flat_map(|n| {
        let event =
            |author: &str, content| Event::new(author).with_invocation_id(format!("run {n}")).with_content(content);
        [event("user", Content::user(format!("{n}"))), event("agent", Content::model(format!("re {n}")))]
    });
    let events = events.enumerate().map(|(n, event)| event.with_timestamp(1000.0 + n as f64)).collect();
    let config = CreateSessionConfig::default().with_session_id("s").with_events(events);
    store.sessions.create_session("app", "user", config).await.unwrap();
}

async fn the_events_stay(store: Store) {
    let (model, read) = (echo(), Arc::default());
    let config = EventsCompactionConfig::by_invocations(2, 1).with_summarizer(NumberedSummaries::default());
    let runner = runner_on(&store, &model, config, &read);
    session(&store, 1).await;
    say(&runner, &["a", "b", "c", "d"]).await;
    assert_eq!(last_request(&model), ["summary 0", "summary 1", "d"]);
    say(&runner, &["e"]).await;
    assert_eq!(last_request(&model), ["summary 0", "summary 1", "d", "re d", "e"]);
    let words: Vec<_> = stored(&runner).await.events().iter().map(|event| said(event.content.as_ref())).collect();
    let all = ["0", "re 0", "a", "re a", "", "b", "re b", "c", "re c", "", "d", "re d", "e", "re e", ""];
    assert_eq!(words, all);
}

/// A run reads only what the last summary does not cover, and sends the same as if it had read the whole session.
async fn a_run_reads_what_is_left_over(store: Store) {
    let (model, read) = (echo(), Arc::new(AtomicUsize::new(0)));
    let config = || EventsCompactionConfig::by_tokens(2000, 10).with_summarizer(NumberedSummaries::default());
    let runner = runner_on(&store, &model, config(), &read);
    session(&store, 1500).await;
    say(&runner, &["a"]).await;
    assert_eq!(read.load(Ordering::Relaxed), 3000, "no summary leaves anything over yet");
    assert_eq!(last_request(&model).len(), 1 + 10);
    say(&runner, &["b"]).await;
    assert!(read.load(Ordering::Relaxed) <= 100, "{read:?} events were read");
    let in_part = last_request(&model);
    let key = SessionKey::new("app", "user", "s").unwrap();
    let length = stored(&runner).await.events().len();
    store.rewind(&key, &stored(&runner).await.events().get(length - 2).unwrap().invocation_id).await.unwrap();
    say(&runner, &["b"]).await;
    assert_eq!(read.load(Ordering::Relaxed), length + 1, "a rewind may go back to anywhere");
    assert_eq!(last_request(&model), in_part);
    let all = GetSessionConfig::default().with_num_recent_events(usize::MAX);
    let request = RunRequest::message("c").with_config(RunConfig::default().with_get_session_config(all));
    run(&runner, request).await.unwrap();
    let whole = last_request(&model);
    assert_eq!(whole[..in_part.len()], in_part);
    assert_eq!(whole[in_part.len()..], ["re b", "c"]);
}

macro_rules! tests_of_a_store {
    ($name:ident, $open:path) => {
        mod $name {
            #[tokio::test]
            async fn the_events_stay() {
                let (store, _guard) = $open().await;
                super::the_events_stay(store).await;
            }

            #[tokio::test]
            async fn a_run_reads_what_is_left_over() {
                let (store, _guard) = $open().await;
                super::a_run_reads_what_is_left_over(store).await;
            }
        }
    };
}

for_each_store!(tests_of_a_store);
