//! The standard way: a program appends an event of its own whose delta changes all scopes, here a login.

use scratchbook::{Environment, Event, SessionServiceExt, StateDelta, SystemEnvironment};
use serde_json::json;

use super::stage::Stage;
use crate::failure::Failure;

pub(super) async fn play(stage: &mut Stage<'_>) -> Result<(), Failure> {
    let before = stage.before("state_app_manual", "user2").await?;
    let given = json!({"user:login_count": 0, "task_status": "idle", "login_form": "shown"});
    let mut scene = stage.begin("state_app_manual", "user2", given).await?;
    let mut session = stage.stored(&scene).await?;

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
    stage.sessions().append_event(&mut session, event).await?;
    stage.appended(&mut scene, delta).await?;

    let own = session.state().get("temp:validation_needed");
    stage.check("the caller's copy has the temporary key", own, true)?;
    let stored = stage.stored(&scene).await?;
    stage.check("task status", stored.state().get("task_status"), "active")?;
    stage.check("logins, one more", stored.state().get("user:login_count"), before.count("user:login_count") + 1)?;
    stage.check("last login", stored.state().get("user:last_login_ts"), now)?;
    stage.check_none("the temporary key is not stored", stored.state().get("temp:validation_needed"))?;
    stage.check("the removed key is gone", Some(&json!(stored.state().contains("login_form"))), false)?;
    stage.check("updated at the event's time", Some(&json!(stored.last_update_time())), now)
}
