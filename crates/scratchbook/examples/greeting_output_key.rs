//! The easy way to update state: `output_key` saves an agent's final answer.

use futures_util::TryStreamExt;
use scratchbook::model::ScriptedLlm;
use scratchbook::{CreateSessionConfig, LlmAgent, Runner, SessionServiceExt};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> scratchbook::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let greeter = LlmAgent::builder("Greeter")
        .model(ScriptedLlm::new(["Hello there! How can I help you today?"]))
        .instruction("Generate a short, friendly greeting.")
        .output_key("last_greeting")
        .build()?;
    let runner = Runner::builder("state_app", greeter, sessions.clone()).build()?;

    let mut session = sessions.create_session("state_app", "user1", CreateSessionConfig::default()).await?;
    assert_eq!(session.state().get("last_greeting"), None);

    let mut events = runner.run("user1", session.id(), "Hello");
    while let Some(event) = events.try_next().await? {
        if event.is_final_response() {
            println!("{} responded", event.author);
        }
        // The answer's event carries the delta.
        assert!(event.actions.state_delta.contains("last_greeting"));
    }

    sessions.refresh(&mut session).await?;
    println!("{}", json!(session.state()));
    assert_eq!(session.state().get("last_greeting"), Some(&json!("Hello there! How can I help you today?")));
    sessions.close().await
}
