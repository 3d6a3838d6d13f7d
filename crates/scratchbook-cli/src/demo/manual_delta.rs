//! The standard way to update state: a program appends its own event, here a login that changes all scopes.

use scratchbook::environment::{Environment, SystemEnvironment};
use scratchbook::{Event, SessionServiceExt, StateDelta};
use serde_json::json;

use super::scenario_run::ScenarioRun;
use crate::failure::Failure;

pub(super) async fn play(run: &mut ScenarioRun<'_>) -> Result<(), Failure> {
    let before = run.before("state_app_manual", "user2").await?;
    let given = json!({"user:login_count": 0, "task_status": "idle", "login_form": "shown"});
    let mut scene = run.begin("state_app_manual", "user2", given).await?;
    let mut session = run.stored(&scene).await?;

    let now = SystemEnvironment.now();
    let logins = session.state().get_as::<u64>("user:login_count")?.unwrap_or(0) + 1;
    let mut delta = StateDelta::new()
        .with("task_status", "active")?
        .with("user:login_count", logins)?
        .with("user:last_login_ts", now)?
        .with("temp:validation_needed", true)?;
    delta.remove("login_form")?;
    let event =
        Event::new("system").with_invocation_id("inv_login_update").with_timestamp(now).with_state_delta(delta.clone());
    run.sessions().append_event(&mut session, event).await?;
    run.appended(&mut scene, delta).await?;

    let own = session.state().get("temp:validation_needed");
    run.check("the caller's copy has the temporary key", own, true)?;
    let stored = run.stored(&scene).await?;
    run.check("task status", stored.state().get("task_status"), "active")?;
    run.check("logins, one more", stored.state().get("user:login_count"), before.count("user:login_count") + 1)?;
    run.check("last login", stored.state().get("user:last_login_ts"), now)?;
    run.check_none("the temporary key is not stored", stored.state().get("temp:validation_needed"))?;
    run.check("the removed key is gone", Some(&json!(stored.state().contains("login_form"))), false)?;
    run.check("updated at the event's time", Some(&json!(stored.last_update_time())), now)
}
