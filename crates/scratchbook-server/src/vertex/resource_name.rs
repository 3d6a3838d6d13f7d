//! Resource names in paths: an engine, or a session of it.

use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::Method;
use axum::http::request::Parts;
use percent_encoding::utf8_percent_encode;
use scratchbook::{Error, Result, SessionKey};

use super::GoogleError;
use crate::access::Caller;
use crate::app_state::AppState;
use crate::scope::{self, AppPart, SurfaceError};
use crate::wire_names::SEGMENT;

/// The end of a path at which an event is appended.
const APPEND: &str = ":appendEvent";

/// An engine. All of it or a part of it is within the caller's reach.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) app_name: String,
    pub(super) caller: Caller,
    pub(super) names: EngineNames,
    pub(super) app_state: AppState,
}

/// A session of an engine. The session is within the caller's reach, but need not exist.
#[derive(Debug)]
pub(super) struct EngineSessionScope {
    pub(super) key: SessionKey,
    pub(super) caller: Caller,
    pub(super) names: EngineNames,
    pub(super) app_state: AppState,
}

/// The number of an operation that a path names as `{operation}`.
#[derive(Debug)]
pub(super) struct PathOperation(pub(super) String);

/// Builds the resource names in answers for the sessions and operations of an engine.
#[derive(Clone, Debug)]
pub(super) struct EngineNames {
    version: &'static str,
    /// The engine's name, as it was sent.
    engine: String,
}

impl EngineNames {
    /// Returns the names for the engine in a path, and the segments after the engine.
    fn of(path: &str) -> Result<(Self, Vec<&str>)> {
        let other = || Error::internal("the route is none of an engine");
        let mut segments = path.split('/').skip(1);
        let version = match segments.next() {
            Some("v1") => "v1",
            Some("v1beta1") => "v1beta1",
            _ => return Err(other()),
        };
        let mut segments: Vec<_> = segments.collect();
        let own = if segments.first() == Some(&"projects") { 6 } else { 2 };
        if segments.len() < own {
            return Err(other());
        }
        let after = segments.split_off(own);
        if segments.last().is_none_or(|engine| engine.is_empty()) {
            return Err(Error::invalid("the reasoning engine in the path has no id; name one"));
        }
        Ok((Self { version, engine: segments.join("/") }, after))
    }

    /// Returns the full name of a type of this version.
    pub(super) fn type_url(&self, name: &str) -> String {
        format!("type.googleapis.com/google.cloud.aiplatform.{}.{name}", self.version)
    }

    pub(super) fn session(&self, session_id: &str) -> String {
        format!("{}/sessions/{}", self.engine, encoded(session_id))
    }

    pub(super) fn event(&self, session_id: &str, event_id: &str) -> String {
        format!("{}/events/{}", self.session(session_id), encoded(event_id))
    }

    pub(super) fn operation(&self, session_id: &str, operation: &str) -> String {
        format!("{}/operations/{operation}", self.session(session_id))
    }
}

fn encoded(id: &str) -> String {
    utf8_percent_encode(id, SEGMENT).to_string()
}

impl FromRequestParts<AppState> for Engine {
    type Rejection = GoogleError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, GoogleError> {
        let AppPart { app_name, caller, app_state, .. } =
            AppPart::<AppState, GoogleError>::from_request_parts(parts, state).await?;
        let (names, _) = EngineNames::of(path(parts))?;
        Ok(Self { app_name, caller, names, app_state })
    }
}

impl FromRequestParts<AppState> for EngineSessionScope {
    type Rejection = GoogleError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, GoogleError> {
        let AppPart { app_name, caller, app_state, .. } =
            AppPart::<AppState, GoogleError>::from_request_parts(parts, state).await?;
        let (names, after) = EngineNames::of(path(parts))?;
        let raw = after.get(1).copied().unwrap_or_default();
        let raw = match parts.method {
            Method::POST => raw.strip_suffix(APPEND).ok_or_else(no_verb)?,
            _ => raw,
        };
        let session_id = GoogleError::decode("session", raw)?;
        let key = match caller.user() {
            // Other users' sessions are not searched, so that nothing about them can leak.
            Some(user_id) => SessionKey::new(&app_name, user_id, &session_id)?,
            None => {
                let found = app_state.store.sessions.locate_session(&app_name, &session_id).await?;
                found.ok_or_else(|| no_session(&session_id))?
            }
        };
        Ok(Self { key, caller, names, app_state })
    }
}

impl FromRequestParts<AppState> for PathOperation {
    type Rejection = GoogleError;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, GoogleError> {
        let [operation] = scope::named::<GoogleError, _>(parts, ["operation"])?;
        Ok(Self(operation))
    }
}

/// Returns the error for a session that does not exist.
pub(super) fn no_session(session_id: &str) -> Error {
    Error::not_found(format!("there is no session {session_id:?} in this engine; create it first"))
}

fn no_verb() -> Error {
    Error::not_found("there is no such method of a session; events are posted to SESSION:appendEvent")
}

fn path(parts: &Parts) -> &str {
    parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0).path()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_the_path_that_was_asked() {
        let (names, after) =
            EngineNames::of("/v1/projects/p/locations/l/reasoningEngines/e/sessions/s:appendEvent").unwrap();
        assert_eq!(names.session("a b"), "projects/p/locations/l/reasoningEngines/e/sessions/a%20b");
        assert_eq!(names.type_url("Session"), "type.googleapis.com/google.cloud.aiplatform.v1.Session");
        assert_eq!(after, ["sessions", "s:appendEvent"]);
        let (names, after) = EngineNames::of("/v1beta1/reasoningEngines/projects/sessions").unwrap();
        assert_eq!(
            (names.event("s", "e/1").as_str(), after),
            ("reasoningEngines/projects/sessions/s/events/e%2F1", vec!["sessions"])
        );
    }
}
