//! The standard way to update state: append an event of your own that carries a delta, here a login.
//!
//! `scratchbook demo manual-delta` plays it too, and shows the event.

use std::sync::Arc;

use scratchbook::environment::{Environment, SystemEnvironment};
use scratchbook::{CreateSessionConfig, Event, Result, Session, SessionService, SessionServiceExt, StateDelta};
use serde_json::{Value, json};

const APP: &str = "state_app_manual";
const USER: &str = "user2";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let session = play(&sessions, &mut |what, found, expected| assert_eq!(found, expected, "{what}")).await?;
    println!("stored as event {}", session.seq());
    println!("{}", json!(session.state()));
    sessions.close().await
}

pub(crate) async fn play(
    sessions: &Arc<dyn SessionService>,
    check: &mut impl FnMut(&str, Option<&Value>, Option<&Value>),
) -> Result<Session> {
    let config = CreateSessionConfig::default().with_state(json!({"task_status": "idle", "login_form": "shown"}));
    let mut session = sessions.create_session(APP, USER, config).await?;

    let now = SystemEnvironment.now();
    let logins = session.state().get_as::<u64>("user:login_count")?.unwrap_or(0) + 1;
    let mut delta = StateDelta::new()
        .with("task_status", "active")?
        .with_increment("user:login_count", 1)?
        .with("user:last_login_ts", now)?
        .with("temp:validation_needed", true)?;
    delta.remove("login_form")?;
    let event = Event::new("system").with_invocation_id("inv_login_update").with_timestamp(now).with_state_delta(delta);
    sessions.append_event(&mut session, event).await?;

    // The caller's copy of the session is up to date and has the temporary key. The store does not keep this key.
    let temporary = session.state().get("temp:validation_needed");
    check("the caller's copy has the temporary key", temporary, Some(&json!(true)));
    sessions.refresh(&mut session).await?;
    check("task status", session.state().get("task_status"), Some(&json!("active")));
    check("logins, one more", session.state().get("user:login_count"), Some(&json!(logins)));
    check("last login", session.state().get("user:last_login_ts"), Some(&json!(now)));
    check("the temporary key is not stored", session.state().get("temp:validation_needed"), None);
    check("the removed key is gone", session.state().get("login_form"), None);
    check("updated at the event's time", Some(&json!(session.last_update_time())), Some(&json!(now)));
    Ok(session)
}
