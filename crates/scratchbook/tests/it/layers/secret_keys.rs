//! Secret keys are hidden from readers who did not ask for them.

use futures_util::TryStreamExt;
use scratchbook::agent::{Instruction, RunConfig, inject_session_state};
use scratchbook::layer::WithSecretKeys;
use scratchbook::model::ScriptedLlm;
use scratchbook::session::{FeedStart, SecretKeys, Watched};
use scratchbook::{
    CreateSessionConfig, ErrorKind, Event, LlmAgent, RunRequest, Runner, SessionService, SessionServiceExt,
};
use serde_json::json;

use super::{append, delta, memory};

fn marked() -> SecretKeys {
    SecretKeys::new(["user:secret_", "pin"])
}

#[tokio::test]
async fn feeds_name_the_key_and_not_its_value() {
    let store = memory();
    let hides = WithSecretKeys::new(store.clone(), marked());
    let shows = WithSecretKeys::new(store.clone(), marked().shown_in_feeds());
    let config = CreateSessionConfig::default().with_session_id("s");
    let config = config.with_state(json!({"pin": "hunter2", "user:secret_token": "hunter2", "a": 1}));
    let session = hides.create_session("app", "alice", config).await.unwrap();
    let key = session.key();
    let mut changes = delta(json!({"pin": "hunter2", "user:secret_token": "hunter2", "a": 2}));
    changes.remove("pin2").unwrap();
    append(&hides, key, Event::new("agent").with_state_delta(changes)).await;
    hides.put_state(&key.user(), delta(json!({"secret_token": "hunter2", "b": 3})), "admin".into()).await.unwrap();

    let told = |feed: scratchbook::session::FeedPage| format!("{:?}", feed.entries);
    let feed = hides.list_feed(&key.app(), &FeedStart::Beginning, 100).await.unwrap();
    let keys: Vec<_> = feed.entries.iter().flat_map(scratchbook::session::FeedEntry::keys).collect();
    assert_eq!(keys.iter().filter(|key| key.as_str() == "user:secret_token").count(), 3, "{keys:?}");
    let feed = told(feed);
    assert!(!feed.contains("hunter2") && feed.contains("[secret]"), "{feed}");
    assert!(told(shows.list_feed(&key.app(), &FeedStart::Beginning, 100).await.unwrap()).contains("hunter2"));

    let mut watch = hides.watch(Watched::session(key.clone()), FeedStart::Beginning).await.unwrap();
    let entry = format!("{:?}", watch.next().await.unwrap());
    assert!(!entry.contains("hunter2") && entry.contains("[secret]"), "{entry}");

    // A caller who reads the session or the state gets the secret values.
    let read = super::read(&hides, key).await;
    assert_eq!(read.state().get("pin"), Some(&json!("hunter2")));
    assert_eq!(hides.get_user_state("app", "alice").await.unwrap()["secret_token"], "hunter2");
    assert!(!format!("{read:?}").contains("hunter2"), "{read:?}");
}

async fn run(instruction: Instruction, config: RunConfig) -> scratchbook::Result<Vec<Event>> {
    let sessions = std::sync::Arc::new(WithSecretKeys::new(memory(), marked()));
    let create = CreateSessionConfig::default().with_session_id("s");
    let create = create.with_state(json!({"user:secret_token": "hunter2", "user:name": "Alice"}));
    sessions.create_session("app", "alice", create).await?;
    let agent = LlmAgent::builder("greeter").model(ScriptedLlm::new(["hello"])).instruction(instruction).build()?;
    let runner = Runner::builder("app", agent, sessions).build()?;
    runner.run("alice", "s", RunRequest::message("hi").with_config(config)).try_collect().await
}

#[tokio::test]
async fn templates_do_not_insert_marked_keys_unless_the_run_allows_it() {
    let by_hand = || {
        Instruction::provider(
            |context| async move { inject_session_state("The {user:secret_token?}.", &context).await },
        )
    };
    for instruction in [Instruction::from("Use {user:secret_token} for {user:name}."), by_hand()] {
        let error = run(instruction, RunConfig::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("'user:secret_token'") && error.to_string().contains("greeter"), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
    let allowed = || RunConfig::default().with_secrets_in_templates();
    run(Instruction::from("Use {user:secret_token}."), allowed()).await.unwrap();
    run(by_hand(), allowed()).await.unwrap();
    run(Instruction::from("Greet {user:name}."), RunConfig::default()).await.unwrap();
}
