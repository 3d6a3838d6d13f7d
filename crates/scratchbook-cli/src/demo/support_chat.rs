//! A customer's problem is solved in three messages. The next chat starts empty, but the number of tickets stays.

use scratchbook::LlmAgent;
use scratchbook::model::ScriptedLlm;
use serde_json::json;

use super::scenario_run::ScenarioRun;
use crate::failure::Failure;

pub(super) async fn play(run: &mut ScenarioRun<'_>) -> Result<(), Failure> {
    let agent = LlmAgent::builder("support_agent")
        .model(ScriptedLlm::new(["Which order is it?", "It arrives tomorrow.", "Thank you for your patience."]))
        .instruction(
            "You are a helpful customer support agent, {app:business_hours}. The topic: {conversation_topic?}.",
        )
        .build()?;
    let runner = run.runner("support_app", agent)?;

    let before = run.before("support_app", "customer_456").await?;
    let hours = before.or("app:business_hours", "9am-5pm EST");
    let given = json!({
        "conversation_topic": null,
        "message_count": 0,
        "escalation_level": "tier1",
        "user:total_tickets": 3,
        "user:satisfaction_score": 4.5,
        "app:business_hours": "9am-5pm EST",
    });
    let mut session = run.begin("support_app", "customer_456", given).await?;
    let start = run.stored(&session).await?;
    run.check("tickets so far", start.state().get("user:total_tickets"), before.or("user:total_tickets", 3))?;

    let delta = json!({"conversation_topic": "order_issue", "message_count": 1, "temp:processing_time": 0.5});
    run.say(&mut session, &runner, "I need help with my order", delta).await?;
    let delta = json!({"message_count": 2, "order_id": "12345", "user:last_contact_date": "2024-01-15"});
    run.say(&mut session, &runner, "Order #12345", delta).await?;
    let delta = json!({
        "message_count": 3,
        "escalation_level": "resolved",
        "user:total_tickets": 4,
        "user:satisfaction_score": 4.7,
    });
    run.say(&mut session, &runner, "Thank you! Issue resolved", delta).await?;

    let done = run.stored(&session).await?;
    run.check("topic", done.state().get("conversation_topic"), "order_issue")?;
    run.check("messages", done.state().get("message_count"), 3)?;
    run.check("status", done.state().get("escalation_level"), "resolved")?;
    run.check("order", done.state().get("order_id"), "12345")?;
    run.check("tickets", done.state().get("user:total_tickets"), 4)?;
    run.check("satisfaction", done.state().get("user:satisfaction_score"), 4.7)?;
    run.check_none("the temporary key is gone", done.state().get("temp:processing_time"))?;

    let next = run.begin("support_app", "customer_456", json!({})).await?;
    let next = run.stored(&next).await?;
    let count = next.state().get("message_count").cloned().unwrap_or_else(|| json!(0));
    run.check("messages in a new chat", Some(&count), 0)?;
    run.check_none("no topic in a new chat", next.state().get("conversation_topic"))?;
    run.check("the tickets stay", next.state().get("user:total_tickets"), 4)?;
    run.check("the business hours stay", next.state().get("app:business_hours"), hours)
}
