//! Three scopes in one state: a cart for each session, loyalty points for each user, a tax rate for the app.
//!
//! Run it twice on one file, `cargo run --example shopping_cart sqlite://shop.db`: the user's and the app's values
//! carry on, the cart starts empty.

use futures_util::TryStreamExt;
use scratchbook::model::ScriptedLlm;
use scratchbook::session::{PutStateOptions, StateOwner};
use scratchbook::{CreateSessionConfig, Event, LlmAgent, RunRequest, Runner, SessionServiceExt, StateDelta};
use serde_json::{Value, json};

const APP: &str = "ecommerce_app";
const USER: &str = "user123";

#[tokio::main(flavor = "current_thread")]
async fn main() -> scratchbook::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let agent = LlmAgent::builder("shopping_assistant")
        .model(ScriptedLlm::new(["The iPhone 15 is in your cart.", "So are the AirPods Pro."]))
        .instruction("You are a shopping assistant. Help users with their cart: {cart_items}.")
        .build()?;
    let runner = Runner::builder(APP, agent, sessions.clone()).build()?;

    // Outside of any session the keys have no prefix. What is there already is left as it is.
    let (user, app) = (StateOwner::user(APP, USER)?, StateOwner::app(APP)?);
    if !sessions.get_state(&user).await?.contains_key("loyalty_points") {
        sessions.put_state(&user, StateDelta::new().with("loyalty_points", 1000)?, PutStateOptions::by("shop")).await?;
    }
    if !sessions.get_state(&app).await?.contains_key("tax_rate") {
        sessions.put_state(&app, StateDelta::new().with("tax_rate", 0.08)?, PutStateOptions::by("shop")).await?;
    }

    let config = CreateSessionConfig::default().with_state(json!({"cart_items": [], "cart_total": 0.0}));
    let mut session = sessions.create_session(APP, USER, config).await?;
    assert_eq!(session.state().get("user:loyalty_points"), Some(&json!(1000)));

    let delta = json!({
        "cart_items": ["iPhone 15"],
        "cart_total": 999.99,
        "user:last_purchase_category": "electronics",
    });
    say(&runner, session.id(), "Add iPhone 15 to cart", delta).await?;
    let delta = json!({"cart_items": ["iPhone 15", "AirPods Pro"], "cart_total": 1299.98});
    say(&runner, session.id(), "Add AirPods Pro too", delta).await?;
    sessions.refresh(&mut session).await?;
    println!("{}", json!(session.state()));
    assert_eq!(session.state().get("cart_items"), Some(&json!(["iPhone 15", "AirPods Pro"])));
    assert_eq!(session.state().get("cart_total"), Some(&json!(1299.98)));

    let next = sessions.create_session(APP, USER, CreateSessionConfig::default()).await?;
    assert_eq!(next.state().get("cart_items"), None);
    assert_eq!(next.state().get("user:loyalty_points"), Some(&json!(1000)));
    assert_eq!(next.state().get("user:last_purchase_category"), Some(&json!("electronics")));
    assert_eq!(next.state().get("app:tax_rate"), Some(&json!(0.08)));
    sessions.close().await
}

async fn say(runner: &Runner, session_id: &str, message: &str, delta: Value) -> scratchbook::Result<Vec<Event>> {
    let request = RunRequest::message(message).with_state_delta(delta.try_into()?);
    runner.run(USER, session_id, request).try_collect().await
}
