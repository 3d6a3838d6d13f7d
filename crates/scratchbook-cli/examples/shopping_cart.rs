//! Three scopes in one state: a cart for each session, loyalty points for each user, a tax rate for the app.
//!
//! Run it twice on one file with `cargo run --locked --example shopping_cart sqlite://shop.db`: the user's and the app's
//! values are kept, and the cart starts empty. `scratchbook demo shopping-cart` plays it too, and shows every event.

use std::sync::Arc;

use futures_util::TryStreamExt;
use scratchbook::model::ScriptedLlm;
use scratchbook::session::{PutStateOptions, StateOwner};
use scratchbook::{
    CreateSessionConfig, Event, LlmAgent, Result, RunRequest, Runner, Session, SessionService, SessionServiceExt,
    StateDelta,
};
use serde_json::{Value, json};

const APP: &str = "ecommerce_app";
const USER: &str = "user123";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let session = play(&sessions, &mut |what, found, expected| assert_eq!(found, expected, "{what}")).await?;
    println!("{}", json!(session.state()));
    sessions.close().await
}

pub(crate) async fn play(
    sessions: &Arc<dyn SessionService>,
    check: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) -> Result<Session> {
    let agent = LlmAgent::builder("shopping_assistant")
        .model(ScriptedLlm::new(["The iPhone 15 is in your cart.", "So are the AirPods Pro."]))
        .instruction("You are a shopping assistant. The cart holds {cart_items}, for ${cart_total} in all.")
        .build()?;
    let runner = Runner::builder(APP, agent, Arc::clone(sessions)).build()?;

    // Outside of sessions, the keys have no prefix. State of an earlier run is kept.
    let (user, app) = (StateOwner::user(APP, USER)?, StateOwner::app(APP)?);
    let points = StateDelta::new().with_set_if_absent("loyalty_points", 1000)?;
    let tax_rate = StateDelta::new().with_set_if_absent("tax_rate", 0.08)?;
    sessions.put_state(&user, points, PutStateOptions::by("shop")).await?;
    sessions.put_state(&app, tax_rate, PutStateOptions::by("shop")).await?;
    let points = sessions.get_state(&user).await?["loyalty_points"].clone();
    let tax_rate = sessions.get_state(&app).await?["tax_rate"].clone();

    let state = json!({"cart_items": [], "cart_total": 0.0});
    let mut session = sessions.create_session(APP, USER, CreateSessionConfig::default().with_state(state)).await?;
    sessions.refresh(&mut session).await?;
    check("an empty cart", session.state().get("cart_items"), Some(&json!([])));
    check("loyalty points", session.state().get("user:loyalty_points"), Some(&points));
    check("tax rate", session.state().get("app:tax_rate"), Some(&tax_rate));

    let delta = in_cart("iPhone 15", 999.99)?.with("user:last_purchase_category", "electronics")?;
    say(&runner, session.id(), "Add iPhone 15 to cart", delta).await?;
    sessions.refresh(&mut session).await?;
    check("one item", session.state().get("cart_items"), Some(&json!(["iPhone 15"])));
    check("its price", session.state().get("cart_total"), Some(&json!(999.99)));
    check("last category", session.state().get("user:last_purchase_category"), Some(&json!("electronics")));

    say(&runner, session.id(), "Add AirPods Pro too", in_cart("AirPods Pro", 299.99)?).await?;
    sessions.refresh(&mut session).await?;
    check("two items", session.state().get("cart_items"), Some(&json!(["iPhone 15", "AirPods Pro"])));
    check("their price", session.state().get("cart_total"), Some(&json!(1299.98)));

    let mut next = sessions.create_session(APP, USER, CreateSessionConfig::default()).await?;
    sessions.refresh(&mut next).await?;
    check("no cart in a new session", next.state().get("cart_items"), None);
    check("the loyalty points stay", next.state().get("user:loyalty_points"), Some(&points));
    check("the last category stays", next.state().get("user:last_purchase_category"), Some(&json!("electronics")));
    check("the tax rate stays", next.state().get("app:tax_rate"), Some(&tax_rate));
    Ok(session)
}

/// Adds one item. The store appends it and adds its price in the commit, so that no other purchase is lost.
fn in_cart(item: &str, price: f64) -> Result<StateDelta> {
    StateDelta::new().with_append("cart_items", item)?.with_increment("cart_total", price)
}

async fn say(runner: &Runner, session_id: &str, message: &str, delta: StateDelta) -> Result<Vec<Event>> {
    let request = RunRequest::message(message).with_state_delta(delta);
    runner.run(USER, session_id, request).try_collect().await
}
