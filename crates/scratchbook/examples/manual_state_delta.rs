//! The standard way to update state: append an event of your own that carries a delta, here a login.

use scratchbook::environment::{Environment, SystemEnvironment};
use scratchbook::{CreateSessionConfig, Event, SessionServiceExt, StateDelta};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> scratchbook::Result<()> {
    let uri = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let sessions = scratchbook::connect(&uri).await?.sessions;
    let config = CreateSessionConfig::default().with_state(json!({"task_status": "idle", "login_form": "shown"}));
    let mut session = sessions.create_session("state_app_manual", "user2", config).await?;

    let now = SystemEnvironment.now();
    let logins = session.state().get_as::<u64>("user:login_count")?.unwrap_or(0) + 1;
    let mut delta = StateDelta::new()
        .with("task_status", "active")?
        .with("user:login_count", logins)?
        .with("user:last_login_ts", now)?
        .with("temp:validation_needed", true)?;
    delta.remove("login_form")?;
    let event = Event::new("system").with_invocation_id("inv_login_update").with_timestamp(now).with_state_delta(delta);
    let stored = sessions.append_event(&mut session, event).await?;
    println!("stored as event {}", stored.seq.unwrap_or_default());

    // The caller's copy has moved on, with the temporary key; the store has never seen that one.
    assert_eq!(session.state().get("temp:validation_needed"), Some(&json!(true)));
    sessions.refresh(&mut session).await?;
    println!("{}", json!(session.state()));
    assert_eq!(
        json!(session.state()),
        json!({"task_status": "active", "user:last_login_ts": now, "user:login_count": logins})
    );
    sessions.close().await
}
