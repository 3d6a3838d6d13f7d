//! The app, the user or the session that a path names, checked against the caller before a handler sees it.
//!
//! A handler that takes one of these cannot forget the check. What is not within the caller's reach answers as what is
//! not there, after as much work: neither the answer nor its time tells one from the other.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use scratchbook::{Error, ErrorKind, GetSessionConfig, Result, SessionKey, StateOwner};

use crate::access::{Caller, Right};
use crate::served::Served;

/// An app named by a path, all of which is within the caller's reach; `R` is the form of refusals.
#[derive(Debug)]
pub(crate) struct AppScope<R> {
    pub(crate) app_name: String,
    pub(crate) caller: Caller,
    refusal: PhantomData<R>,
}

/// A user of an app named by a path.
#[derive(Debug)]
pub(crate) struct UserScope<R> {
    pub(crate) app_name: String,
    pub(crate) user_id: String,
    pub(crate) caller: Caller,
    refusal: PhantomData<R>,
}

/// A session named by a path.
#[derive(Debug)]
pub(crate) struct SessionScope<R> {
    pub(crate) key: SessionKey,
    pub(crate) caller: Caller,
    refusal: PhantomData<R>,
}

impl<R> AppScope<R> {
    /// The owner of the app's state.
    pub(crate) fn owner(&self) -> Result<StateOwner> {
        StateOwner::app(&self.app_name)
    }
}

impl<R> UserScope<R> {
    /// The owner of the user's state.
    pub(crate) fn owner(&self) -> Result<StateOwner> {
        StateOwner::user(&self.app_name, &self.user_id)
    }
}

impl<R: From<Error> + IntoResponse> FromRequestParts<Arc<Served>> for AppScope<R> {
    type Rejection = R;

    async fn from_request_parts(parts: &mut Parts, served: &Arc<Served>) -> Result<Self, R> {
        let caller = caller(parts)?;
        let [app_name] = named(parts, served, ["app"]).await?;
        within_reach(parts, served, &caller, &app_name, None).await?;
        Ok(Self { app_name, caller, refusal: PhantomData })
    }
}

impl<R: From<Error> + IntoResponse> FromRequestParts<Arc<Served>> for UserScope<R> {
    type Rejection = R;

    async fn from_request_parts(parts: &mut Parts, served: &Arc<Served>) -> Result<Self, R> {
        let caller = caller(parts)?;
        let [app_name, user_id] = named(parts, served, ["app", "user"]).await?;
        within_reach(parts, served, &caller, &app_name, Some(&user_id)).await?;
        Ok(Self { app_name, user_id, caller, refusal: PhantomData })
    }
}

impl<R: From<Error> + IntoResponse> FromRequestParts<Arc<Served>> for SessionScope<R> {
    type Rejection = R;

    async fn from_request_parts(parts: &mut Parts, served: &Arc<Served>) -> Result<Self, R> {
        let caller = caller(parts)?;
        let [app_name, user_id, session_id] = named(parts, served, ["app", "user", "session"]).await?;
        within_reach(parts, served, &caller, &app_name, Some(&user_id)).await?;
        let key = SessionKey::new(&app_name, &user_id, &session_id)?;
        Ok(Self { key, caller, refusal: PhantomData })
    }
}

/// Who calls; the layer that finds it out is around every route.
fn caller(parts: &Parts) -> Result<Caller> {
    let caller = parts.extensions.get::<Caller>().cloned();
    caller.ok_or_else(|| Error::internal("the route has no layer that finds out who calls"))
}

/// The names that a path has for its parameters, as they were before they were encoded.
pub(crate) async fn named<const N: usize>(
    parts: &mut Parts,
    served: &Arc<Served>,
    names: [&str; N],
) -> Result<[String; N]> {
    // The router has decoded them, once: a name may look as if it was still encoded.
    let params = RawPathParams::from_request_parts(parts, served).await.map_err(|rejection| match rejection {
        RawPathParamsRejection::InvalidUtf8InPathParam(_) => Error::invalid("a name in the path is not UTF-8"),
        other => Error::internal("the route has no parameters").with_source(other),
    })?;
    let mut found = names.map(|_| String::new());
    for (name, found) in names.iter().zip(&mut found) {
        let text = params.iter().find(|(param, _)| param == name).map(|(_, value)| value);
        let text = text.ok_or_else(|| Error::internal(format!("the route has no parameter '{name}'")))?;
        *found = text.to_owned();
    }
    Ok(found)
}

/// Checks reach and the right that the method takes.
async fn within_reach(
    parts: &Parts,
    served: &Served,
    caller: &Caller,
    app_name: &str,
    user_id: Option<&str>,
) -> Result<()> {
    if !caller.reaches(app_name, user_id) {
        // As much work as looking for a session that is not there, and the same answer.
        let nobody = SessionKey::new("-", "-", "-")?;
        served.store.sessions.get_session(&nobody, &GetSessionConfig::default()).await?;
        return Err(Error::new(ErrorKind::NotFound, "there is no such app, user or session"));
    }
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    caller.check(if reads { Right::Read } else { Right::Write })
}
