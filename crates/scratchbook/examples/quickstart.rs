//! The first example of the README: a session, a run that changes its state, and a read that shows the change.

use futures_util::TryStreamExt;
use scratchbook::model::ScriptedLlm;
use scratchbook::{CreateSessionConfig, LlmAgent, RunRequest, Runner, SessionServiceExt, StateDelta};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> scratchbook::Result<()> {
    // The URI may also name a file: "sqlite://agents.db".
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let store = scratchbook::connect(&uri).await?;

    let agent = LlmAgent::builder("assistant")
        .model(ScriptedLlm::new(["Your cart holds one book."]))
        .instruction("You are a shopping assistant. The cart holds {cart}.")
        .build()?;
    let runner = Runner::builder("shop", agent, store.sessions.clone()).build()?;

    let config = CreateSessionConfig::default().with_state(json!({"cart": []}));
    let mut session = store.sessions.create_session("shop", "alice", config).await?;

    // The delta is committed with the message: `cart` for this session, `user:visits` for all of Alice's.
    let delta = StateDelta::new().with_append("cart", "book")?.with_increment("user:visits", 1)?;
    let request = RunRequest::message("Add a book").with_state_delta(delta);
    let mut events = runner.run("alice", session.id(), request);
    while let Some(event) = events.try_next().await? {
        println!("{}: {}", event.author, event.content.map(|content| content.text()).unwrap_or_default());
    }

    store.sessions.refresh(&mut session).await?;
    assert_eq!(session.state().get("cart"), Some(&json!(["book"])));
    assert!(session.state().get_as::<u64>("user:visits")?.is_some_and(|visits| visits >= 1));
    println!("{}", json!(session.state()));
    store.sessions.close().await
}
