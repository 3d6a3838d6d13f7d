//! A chat's own keys start empty in each session, the customer's keys stay, and `temp:` keys live for one run.
//!
//! `scratchbook demo support-chat` plays it too, and shows every event.

use std::sync::Arc;

use futures_util::TryStreamExt;
use scratchbook::model::ScriptedLlm;
use scratchbook::session::{PutStateOptions, StateOwner};
use scratchbook::{
    CreateSessionConfig, LlmAgent, Result, RunRequest, Runner, Session, SessionService, SessionServiceExt, StateDelta,
};
use serde_json::{Value, json};

const APP: &str = "support_app";
const USER: &str = "customer_456";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let chat = play(&sessions, &mut |what, found, expected| assert_eq!(found, expected, "{what}")).await?;
    println!("{}", json!(chat.state()));
    sessions.close().await
}

pub(crate) async fn play(
    sessions: &Arc<dyn SessionService>,
    check: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) -> Result<Session> {
    let agent = LlmAgent::builder("support_agent")
        .model(ScriptedLlm::new(["Which order is it?", "It arrives tomorrow.", "Thank you for your patience."]))
        .instruction(
            "You are a helpful customer support agent, {app:business_hours}. The topic: {conversation_topic?}.",
        )
        .build()?;
    let runner = Runner::builder(APP, agent, Arc::clone(sessions)).build()?;

    // State of an earlier run is kept.
    let (customer, app) = (StateOwner::user(APP, USER)?, StateOwner::app(APP)?);
    let firsts =
        StateDelta::new().with_set_if_absent("total_tickets", 3)?.with_set_if_absent("satisfaction_score", 4.5)?;
    sessions.put_state(&customer, firsts, PutStateOptions::by("support")).await?;
    let hours = StateDelta::new().with_set_if_absent("business_hours", "9am-5pm EST")?;
    sessions.put_state(&app, hours, PutStateOptions::by("support")).await?;
    let tickets = sessions.get_state(&customer).await?["total_tickets"].as_u64().unwrap_or(0);
    let hours = sessions.get_state(&app).await?["business_hours"].clone();
    let state = json!({"conversation_topic": null, "message_count": 0, "escalation_level": "tier1"});
    let mut chat = sessions.create_session(APP, USER, CreateSessionConfig::default().with_state(state)).await?;
    sessions.refresh(&mut chat).await?;
    check("tickets so far", chat.state().get("user:total_tickets"), Some(&json!(tickets)));

    for (message, delta) in [
        ("I need help with my order", json!({"conversation_topic": "order_issue", "temp:processing_time": 0.5})),
        ("Order #12345", json!({"order_id": "12345", "user:last_contact_date": "2024-01-15"})),
        ("Thank you! Issue resolved", json!({"escalation_level": "resolved", "user:satisfaction_score": 4.7})),
    ] {
        let mut delta: StateDelta = delta.try_into()?;
        delta.increment("message_count", 1)?;
        if delta.contains("escalation_level") {
            delta.increment("user:total_tickets", 1)?;
        }
        let request = RunRequest::message(message).with_state_delta(delta);
        let _: Vec<_> = runner.run(USER, chat.id(), request).try_collect().await?;
    }

    sessions.refresh(&mut chat).await?;
    check("topic", chat.state().get("conversation_topic"), Some(&json!("order_issue")));
    check("messages", chat.state().get("message_count"), Some(&json!(3)));
    check("status", chat.state().get("escalation_level"), Some(&json!("resolved")));
    check("order", chat.state().get("order_id"), Some(&json!("12345")));
    check("tickets", chat.state().get("user:total_tickets"), Some(&json!(tickets + 1)));
    check("satisfaction", chat.state().get("user:satisfaction_score"), Some(&json!(4.7)));
    check("the temporary key is gone", chat.state().get("temp:processing_time"), None);

    let mut next = sessions.create_session(APP, USER, CreateSessionConfig::default()).await?;
    sessions.refresh(&mut next).await?;
    let messages = next.state().get_as::<u64>("message_count")?.unwrap_or(0);
    check("messages in a new chat", Some(&json!(messages)), Some(&json!(0)));
    check("no topic in a new chat", next.state().get("conversation_topic"), None);
    check("the tickets stay", next.state().get("user:total_tickets"), Some(&json!(tickets + 1)));
    check("the business hours stay", next.state().get("app:business_hours"), Some(&hours));
    Ok(chat)
}
