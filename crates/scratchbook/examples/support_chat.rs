//! A chat's own keys begin empty in each session, the customer's stay, and `temp:` ones live one run.

use futures_util::TryStreamExt;
use scratchbook::model::ScriptedLlm;
use scratchbook::session::{PutStateOptions, StateOwner};
use scratchbook::{CreateSessionConfig, LlmAgent, RunRequest, Runner, SessionServiceExt, StateDelta};
use serde_json::json;

const APP: &str = "support_app";
const USER: &str = "customer_456";

#[tokio::main(flavor = "current_thread")]
async fn main() -> scratchbook::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let agent = LlmAgent::builder("support_agent")
        .model(ScriptedLlm::new(["Which order is it?", "It arrives tomorrow.", "Thank you for your patience."]))
        .instruction("You are a helpful customer support agent. The topic: {conversation_topic}.")
        .build()?;
    let runner = Runner::builder(APP, agent, sessions.clone()).build()?;

    let customer = StateOwner::user(APP, USER)?;
    if !sessions.get_state(&customer).await?.contains_key("total_tickets") {
        let delta = StateDelta::new().with("total_tickets", 3)?.with("satisfaction_score", 4.5)?;
        sessions.put_state(&customer, delta, PutStateOptions::by("support")).await?;
    }
    let state = json!({"conversation_topic": null, "message_count": 0, "escalation_level": "tier1"});
    let mut chat = sessions.create_session(APP, USER, CreateSessionConfig::default().with_state(state)).await?;

    for (message, delta) in [
        (
            "I need help with my order",
            json!({"conversation_topic": "order_issue", "message_count": 1, "temp:processing_time": 0.5}),
        ),
        ("Order #12345", json!({"message_count": 2, "order_id": "12345", "user:last_contact_date": "2024-01-15"})),
        (
            "Thank you! Issue resolved",
            json!({
                "message_count": 3, "escalation_level": "resolved",
                "user:total_tickets": 4, "user:satisfaction_score": 4.7,
            }),
        ),
    ] {
        let request = RunRequest::message(message).with_state_delta(delta.try_into()?);
        let _: Vec<_> = runner.run(USER, chat.id(), request).try_collect().await?;
    }

    sessions.refresh(&mut chat).await?;
    println!("{}", json!(chat.state()));
    assert_eq!(chat.state().get("message_count"), Some(&json!(3)));
    assert_eq!(chat.state().get("escalation_level"), Some(&json!("resolved")));
    assert_eq!(chat.state().get("order_id"), Some(&json!("12345")));
    assert_eq!(chat.state().get("user:total_tickets"), Some(&json!(4)));
    assert_eq!(chat.state().get("user:satisfaction_score"), Some(&json!(4.7)));
    assert_eq!(chat.state().get("temp:processing_time"), None);

    let next = sessions.create_session(APP, USER, CreateSessionConfig::default()).await?;
    assert_eq!(next.state().get_as::<u64>("message_count")?.unwrap_or(0), 0);
    assert_eq!(next.state().get("conversation_topic"), None);
    assert_eq!(next.state().get("user:total_tickets"), Some(&json!(4)));
    sessions.close().await
}
