//! A customer fills a cart. The next session has no cart, but the loyalty points stay.

use scratchbook::LlmAgent;
use scratchbook::model::ScriptedLlm;
use serde_json::json;

use super::scenario_run::ScenarioRun;
use crate::failure::Failure;

pub(super) async fn play(run: &mut ScenarioRun<'_>) -> Result<(), Failure> {
    let agent = LlmAgent::builder("shopping_assistant")
        .model(ScriptedLlm::new(["The iPhone 15 is in your cart.", "So are the AirPods Pro."]))
        .instruction("You are a shopping assistant. The cart holds {cart_items}, for ${cart_total} in all.")
        .build()?;
    let runner = run.runner("ecommerce_app", agent)?;

    let before = run.before("ecommerce_app", "user123").await?;
    let (points, tax_rate) = (before.or("user:loyalty_points", 1000), before.or("app:tax_rate", 0.08));
    let given = json!({"cart_items": [], "cart_total": 0.0, "user:loyalty_points": 1000, "app:tax_rate": 0.08});
    let mut session = run.begin("ecommerce_app", "user123", given).await?;
    let start = run.stored(&session).await?;
    run.check("an empty cart", start.state().get("cart_items"), json!([]))?;
    run.check("loyalty points", start.state().get("user:loyalty_points"), points.clone())?;
    run.check("tax rate", start.state().get("app:tax_rate"), tax_rate.clone())?;

    let delta = json!({
        "cart_items": ["iPhone 15"],
        "cart_total": 999.99,
        "user:last_purchase_category": "electronics",
    });
    run.say(&mut session, &runner, "Add iPhone 15 to cart", delta).await?;
    let one = run.stored(&session).await?;
    run.check("one item", one.state().get("cart_items"), json!(["iPhone 15"]))?;
    run.check("its price", one.state().get("cart_total"), 999.99)?;
    run.check("last category", one.state().get("user:last_purchase_category"), "electronics")?;

    let delta = json!({"cart_items": ["iPhone 15", "AirPods Pro"], "cart_total": 1299.98});
    run.say(&mut session, &runner, "Add AirPods Pro too", delta).await?;
    let two = run.stored(&session).await?;
    run.check("two items", two.state().get("cart_items"), json!(["iPhone 15", "AirPods Pro"]))?;
    run.check("their price", two.state().get("cart_total"), 1299.98)?;

    let next = run.begin("ecommerce_app", "user123", json!({})).await?;
    let next = run.stored(&next).await?;
    run.check_none("no cart in a new session", next.state().get("cart_items"))?;
    run.check("the loyalty points stay", next.state().get("user:loyalty_points"), points)?;
    run.check("the last category stays", next.state().get("user:last_purchase_category"), "electronics")?;
    run.check("the tax rate stays", next.state().get("app:tax_rate"), tax_rate)
}
