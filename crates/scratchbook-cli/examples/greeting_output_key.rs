//! The easy way to update state: `output_key` saves an agent's final answer.
//!
//! `scratchbook demo greeting` plays it too, and shows every event.

use std::sync::Arc;

use futures_util::TryStreamExt;
use scratchbook::model::ScriptedLlm;
use scratchbook::{CreateSessionConfig, LlmAgent, Result, Runner, Session, SessionService, SessionServiceExt};
use serde_json::{Value, json};

const GREETING: &str = "Hello there! How can I help you today?";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let session = play(&sessions, &mut |what, found, expected| assert_eq!(found, expected, "{what}")).await?;
    // The event of the answer carries the delta.
    for event in session.events().iter().filter(|event| event.actions.state_delta.contains("last_greeting")) {
        println!("{} responded", event.author);
    }
    println!("{}", json!(session.state()));
    sessions.close().await
}

pub(crate) async fn play(
    sessions: &Arc<dyn SessionService>,
    check: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) -> Result<Session> {
    let greeter = LlmAgent::builder("Greeter")
        .model(ScriptedLlm::new([GREETING]))
        .instruction("Generate a short, friendly greeting.")
        .output_key("last_greeting")
        .build()?;
    let runner = Runner::builder("state_app", greeter, Arc::clone(sessions)).build()?;

    let mut session = sessions.create_session("state_app", "user1", CreateSessionConfig::default()).await?;
    sessions.refresh(&mut session).await?;
    check("no greeting yet", session.state().get("last_greeting"), None);

    let mut has_answered = false;
    let mut events = runner.run("user1", session.id(), "Hello");
    while let Some(event) = events.try_next().await? {
        has_answered = event.is_final_response();
    }
    check("the agent has answered", Some(&json!(has_answered)), Some(&json!(true)));
    sessions.refresh(&mut session).await?;
    check("last_greeting", session.state().get("last_greeting"), Some(&json!(GREETING)));
    Ok(session)
}
