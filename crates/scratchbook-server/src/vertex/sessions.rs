//! Creates, reads and deletes sessions, and returns the operations that report this.

use axum::Json;
use axum::extract::{RawQuery, Request};
use axum::response::Response;
use scratchbook::vertex::SessionResource;
use scratchbook::{CreateSessionConfig, Error, ErrorKind, GetSessionConfig, Result, Session, SessionKey};
use serde_json::Value;
use uuid::Uuid;

use super::operation::{self, SessionOperation};
use super::params::{ObjectBody, Params, unread};
use super::resource_name::{Engine, EngineNames, EngineSessionScope, PathOperation, no_session};
use super::{GoogleError, expiry};
use crate::access::{Caller, Right};
use crate::answers;
use crate::app_state::AppState;
use crate::scope;

/// How many ids are tried for one session: with 62 random bits the first one is nearly always free.
const TRIES: usize = 4;

/// Creates a session, and returns the operation that created it.
pub(super) async fn create(
    engine: Engine,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Json<Value>, GoogleError> {
    let Engine { app_name, caller, names, app_state } = &engine;
    let unread = unread(request, app_state).await?;
    // The user is checked before anything else in the body is read.
    if let Some([user, user_snake]) = unread.texts(["userId", "user_id"]).await?
        && let Some(user) = user.or(user_snake).text()
    {
        scope::user_of_body(&app_state.probe, caller, app_name, user).await?;
    }
    let ObjectBody(body) = ObjectBody::read(unread).await?;
    let params = Params::new(query.as_deref(), &["sessionId"])?;
    let sent = SessionResource::from_json(body)?;
    let user_id = sent.user_id.ok_or_else(|| Error::invalid("the session has no userId; name its user"))?;
    scope::user_of_body(&app_state.probe, caller, app_name, &user_id).await?;
    let state = sent.session_state.unwrap_or_default();
    caller.check_app_keys(state.keys().map(String::as_str))?;
    expiry::check(app_state, sent.expiry)?;
    let mut config = CreateSessionConfig::default().with_state(state).with_id_unique_in_app();
    config.expiry = sent.expiry;
    config.title = sent.display_name;
    config.labels = sent.labels.unwrap_or_default();
    let session = match params.text("sessionId") {
        Some(id) => {
            check_session_id(id)?;
            app_state.store.sessions.create_session(app_name, &user_id, config.with_session_id(id)).await?
        }
        None => numbered(app_state, app_name, &user_id, &config).await?,
    };
    Ok(Json(operation::created(session.key(), names, &shown(&session, names, caller))))
}

/// Creates a session with a number as its id, as Google's servers do.
async fn numbered(
    app_state: &AppState,
    app_name: &str,
    user_id: &str,
    config: &CreateSessionConfig,
) -> Result<Session> {
    let mut tries = 0;
    loop {
        tries += 1;
        let id = (Uuid::new_v4().as_u64_pair().1 >> 1).to_string();
        let config = config.clone().with_session_id(id);
        match app_state.store.sessions.create_session(app_name, user_id, config).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && tries < TRIES => {}
            made => return made,
        }
    }
}

/// Checks that ADK's client accepts an id. ADK's client accepts more ids than Google documents.
fn check_session_id(id: &str) -> Result<()> {
    if id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_') {
        return Ok(());
    }
    Err(Error::invalid(format!("the sessionId {id:?} has other characters than letters, digits, '-' and '_'")))
}

pub(super) async fn get(target: EngineSessionScope, RawQuery(query): RawQuery) -> Result<Response, GoogleError> {
    Params::new(query.as_deref(), &[])?;
    let config = GetSessionConfig::state_only().with_page_bytes(target.app_state.page_bytes());
    Ok(answers::json(read(&target.app_state, &target, &config).await?).await?)
}

/// Deletes a session, and returns the operation that deleted it.
pub(super) async fn delete(target: EngineSessionScope, RawQuery(query): RawQuery) -> Result<Json<Value>, GoogleError> {
    Params::new(query.as_deref(), &[])?;
    check_there(&target.app_state, &target.key).await?;
    target.app_state.store.sessions.delete_session(&target.key).await?;
    Ok(Json(operation::deleted(&target.key, &target.names, target.app_state.environment.now())))
}

/// Returns a past operation of a session, which has to exist.
pub(super) async fn operation(
    target: EngineSessionScope,
    PathOperation(number): PathOperation,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, GoogleError> {
    Params::new(query.as_deref(), &[])?;
    let config = GetSessionConfig::state_only().with_page_bytes(target.app_state.page_bytes());
    let session = found(&target.app_state, &target.key, &config).await?;
    match SessionOperation::find(&target.key, &number) {
        Some(SessionOperation::Create) => {
            let shown = shown(&session, &target.names, &target.caller);
            Ok(Json(operation::created(&target.key, &target.names, &shown)))
        }
        _ => Err(Error::not_found(format!("there is no operation {number:?} of this session")).into()),
    }
}

/// Reads a session and returns its JSON for an answer.
pub(super) async fn read(
    app_state: &AppState,
    target: &EngineSessionScope,
    config: &GetSessionConfig,
) -> Result<Value> {
    let session = found(app_state, &target.key, config).await?;
    Ok(shown(&session, &target.names, &target.caller).to_json())
}

/// Reads a session. Fails with `NotFound` if there is no such session.
pub(super) async fn found(app_state: &AppState, key: &SessionKey, config: &GetSessionConfig) -> Result<Session> {
    let session = app_state.store.sessions.get_session(key, config).await?;
    session.ok_or_else(|| no_session(key.session_id()))
}

/// Fails with `NotFound` if there is no such session.
pub(super) async fn check_there(app_state: &AppState, key: &SessionKey) -> Result<()> {
    found(app_state, key, &GetSessionConfig::state_only().without_state()).await.map(drop)
}

/// Returns a session as it is shown to a caller. A caller that may not read sees only the names and times of the
/// session.
pub(super) fn shown(session: &Session, names: &EngineNames, caller: &Caller) -> SessionResource {
    let mut shown = SessionResource::new(session, names.session(session.id()));
    if !caller.may(Right::Read) {
        shown.display_name = None;
        shown.labels = None;
        shown.session_state = None;
    }
    shown
}
