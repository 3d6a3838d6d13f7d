//! Updates of a session: its title, labels, state and expiry.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::extract::{RawQuery, State};
use scratchbook::session::SessionUpdate;
use scratchbook::vertex::SessionResource;
use scratchbook::{
    AppendOptions, Error, ErrorKind, Event, GetSessionConfig, Result, Scope, Session, SessionService, StateDelta,
};
use serde_json::{Map, Value};

use super::params::{ObjectBody, Params};
use super::resource_name::EngineSessionScope;
use super::sessions::{found, read};
use super::{GoogleError, expiry};
use crate::access::{Caller, Right};
use crate::app_state::AppState;

/// How long an update of the state waits before each retry after a conflict, in milliseconds.
const PAUSES: [u64; 16] = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 89, 89, 89, 89, 0];

/// The fields that an update may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UpdateField {
    DisplayName,
    Labels,
    SessionState,
    Expiry,
}

impl UpdateField {
    const ALL: [Self; 4] = [Self::DisplayName, Self::Labels, Self::SessionState, Self::Expiry];

    /// Returns the field that a path of an update mask names.
    fn new(path: &str) -> Result<Self> {
        match path {
            "displayName" | "display_name" => Ok(Self::DisplayName),
            "labels" => Ok(Self::Labels),
            "sessionState" | "session_state" => Ok(Self::SessionState),
            "ttl" | "expireTime" | "expire_time" => Ok(Self::Expiry),
            "userId" | "user_id" => Err(Error::invalid("a session stays its user's: leave userId out of updateMask")),
            _ => Err(Error::invalid(format!(
                "updateMask has {path:?}; it may have displayName, labels, sessionState, ttl and expireTime, each whole"
            ))),
        }
    }
}

/// Changes the fields that the mask names. Without a mask, changes the fields that were sent.
pub(super) async fn update(
    State(app_state): State<AppState>,
    target: EngineSessionScope,
    RawQuery(query): RawQuery,
    ObjectBody(body): ObjectBody,
) -> Result<Json<Value>, GoogleError> {
    // Google's client sends a parameter for the id here too, as for creating a session.
    let params = Params::new(query.as_deref(), &["updateMask", "sessionId"])?;
    let sent = SessionResource::from_json(body)?;
    let fields = fields(params.text("updateMask"), &sent)?;
    let has = |field| fields.contains(&field);
    expiry::check(&app_state, sent.expiry)?;
    let update = session_update(&fields, &sent)?;
    let session = found(&app_state, &target.key, &GetSessionConfig::state_only()).await?;
    if sent.user_id.is_some_and(|user| user != session.user_id()) {
        return Err(Error::invalid("a session stays its user's: leave userId out").into());
    }
    if has(UpdateField::SessionState) {
        set_state(&app_state, &target, session, sent.session_state.unwrap_or_default(), update).await?;
    } else if !update.is_empty() {
        app_state.store.sessions.update_session(&target.key, update).await?;
    }
    Ok(Json(read(&app_state, &target, &GetSessionConfig::state_only()).await?))
}

fn fields(mask: Option<&str>, sent: &SessionResource) -> Result<BTreeSet<UpdateField>> {
    match mask {
        Some("*") => Ok(UpdateField::ALL.into()),
        Some(mask) => mask.split(',').map(|path| UpdateField::new(path.trim())).collect(),
        None => {
            let is_sent = |field: &UpdateField| match field {
                UpdateField::DisplayName => sent.display_name.is_some(),
                UpdateField::Labels => sent.labels.is_some(),
                UpdateField::SessionState => sent.session_state.is_some(),
                UpdateField::Expiry => sent.expiry.is_some(),
            };
            Ok(UpdateField::ALL.into_iter().filter(is_sent).collect())
        }
    }
}

/// Returns the changes other than those of the state.
fn session_update(fields: &BTreeSet<UpdateField>, sent: &SessionResource) -> Result<SessionUpdate> {
    let mut update = SessionUpdate::default();
    if fields.contains(&UpdateField::DisplayName) {
        update = update.with_title(sent.display_name.clone().unwrap_or_default());
    }
    if fields.contains(&UpdateField::Labels) {
        let labels = sent.labels.iter().flatten();
        update = labels.fold(update.without_other_labels(), |update, (name, value)| update.with_label(name, value));
    }
    if fields.contains(&UpdateField::Expiry) {
        update = update.with_expiry(sent.expiry);
    }
    update.check()?;
    Ok(update)
}

/// Replaces the session's own keys with a state, through an event of the user that is committed with the update. Keys
/// of the user and the app are set if the state names them. Otherwise they stay, because other sessions share them.
async fn set_state(
    app_state: &AppState,
    target: &EngineSessionScope,
    mut session: Session,
    wanted: Map<String, Value>,
    update: SessionUpdate,
) -> Result<()> {
    let (caller, sessions) = (&target.caller, &app_state.store.sessions);
    if !caller.may(Right::Read) {
        // All named `app:` keys are checked, and not only the changed ones. Otherwise a caller who may not read could
        // find out whether a key has the sent value.
        caller.check_app_keys(wanted.keys().map(String::as_str))?;
    }
    let invocation = format!("p-{}", app_state.environment.new_id());
    for pause in PAUSES {
        let delta = difference(&session, &wanted, caller)?;
        if delta.is_empty() {
            return match update.is_empty() {
                true => Ok(()),
                false => sessions.update_session(&target.key, update).await,
            };
        }
        let event = Event::new("user").with_invocation_id(invocation.as_str()).with_state_delta(delta);
        // Keys that others have added in the meantime are removed too.
        let options = AppendOptions::by_session(session.seen().clone()).with_update(update.clone());
        match sessions.append(&target.key, event, options).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            done => return done.map(drop),
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
        session = found(app_state, &target.key, &GetSessionConfig::state_only()).await?;
    }
    Err(Error::new(ErrorKind::Conflict, "others have appended to the session every time; try again"))
}

/// Returns the changes that turn a session's state into the wanted one.
fn difference(session: &Session, wanted: &Map<String, Value>, caller: &Caller) -> Result<StateDelta> {
    let mut delta = StateDelta::new();
    for (key, value) in wanted {
        if Scope::split(key).0 != Scope::Temp && !session.state().get(key).is_some_and(|before| is_same(before, value))
        {
            delta.set(key, value)?;
        }
    }
    for (key, _) in session.state().iter() {
        if Scope::split(&key).0 == Scope::Session && !wanted.contains_key(&key) {
            delta.remove(key)?;
        }
    }
    caller.check_delta(&delta)?;
    Ok(delta)
}

/// Returns whether two values are the same, including the sign of a zero.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.to_string() == b.to_string(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        _ => a == b,
    }
}
