//! The app, the user or the session that a path names, checked against the caller before a handler sees it.
//!
//! A handler that takes one of these extractors cannot forget the check. Data out of the caller's reach is answered as
//! if it did not exist, after the same amount of work. So neither the answer nor its time reveals the difference.

use std::marker::PhantomData;

use axum::extract::{FromRef, FromRequestParts, MatchedPath, OriginalUri, Request};
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use percent_encoding::percent_decode_str;
use scratchbook::session::StateOwner;
use scratchbook::{Error, ErrorKind, Result, SessionKey};

use crate::access::{Caller, Right};
use crate::store_probe::StoreProbe;

/// The form of a surface's refusals, and how the surface decodes the names in its paths.
pub(crate) trait SurfaceError: From<Error> + IntoResponse {
    /// Decodes a name from a path.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is not UTF-8, or if the surface refuses it for another reason.
    fn decode(parameter: &str, raw: &str) -> Result<String, Self> {
        let text = percent_decode_str(raw).decode_utf8();
        let text = text.map_err(|_| Error::invalid(format!("the {parameter} in the path is not UTF-8")))?;
        Ok(text.into_owned())
    }
}

/// An app named by a path. The whole app is within the caller's reach. `R` is the form of refusals.
#[derive(Debug)]
pub(crate) struct AppScope<S, R> {
    pub(crate) app_name: String,
    pub(crate) caller: Caller,
    pub(crate) app_state: S,
    refusal: PhantomData<R>,
}

/// An app named by a path. The caller reaches the whole app, or only the data of its own user.
#[derive(Debug)]
pub(crate) struct AppPart<S, R> {
    pub(crate) app_name: String,
    pub(crate) caller: Caller,
    pub(crate) app_state: S,
    refusal: PhantomData<R>,
}

/// An app named by a path. The handler itself checks the caller.
#[derive(Debug)]
pub(crate) struct AppName<R> {
    pub(crate) app_name: String,
    refusal: PhantomData<R>,
}

/// A user of an app named by a path.
#[derive(Debug)]
pub(crate) struct UserScope<S, R> {
    pub(crate) app_name: String,
    pub(crate) user_id: String,
    pub(crate) caller: Caller,
    pub(crate) app_state: S,
    refusal: PhantomData<R>,
}

/// A session named by a path.
#[derive(Debug)]
pub(crate) struct SessionScope<S, R> {
    pub(crate) key: SessionKey,
    pub(crate) caller: Caller,
    pub(crate) app_state: S,
    refusal: PhantomData<R>,
}

impl<S, R> AppScope<S, R> {
    /// Returns the owner of the app's state.
    pub(crate) fn owner(&self) -> Result<StateOwner> {
        StateOwner::app(&self.app_name)
    }
}

impl<S, R> UserScope<S, R> {
    /// Returns the owner of the user's state.
    pub(crate) fn owner(&self) -> Result<StateOwner> {
        StateOwner::user(&self.app_name, &self.user_id)
    }
}

impl<S, R: SurfaceError> FromRequestParts<S> for AppScope<S, R>
where
    S: Clone + Send + Sync,
    StoreProbe: FromRef<S>,
{
    type Rejection = R;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, R> {
        let caller = caller(parts)?;
        let [app_name] = named::<R, _>(parts, ["app"])?;
        within_reach(parts, &StoreProbe::from_ref(state), &caller, &app_name, None).await?;
        Ok(Self { app_name, caller, app_state: state.clone(), refusal: PhantomData })
    }
}

impl<S, R: SurfaceError> FromRequestParts<S> for AppPart<S, R>
where
    S: Clone + Send + Sync,
    StoreProbe: FromRef<S>,
{
    type Rejection = R;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, R> {
        let caller = caller(parts)?;
        let [app_name] = named::<R, _>(parts, ["app"])?;
        within_reach(parts, &StoreProbe::from_ref(state), &caller, &app_name, caller.user()).await?;
        Ok(Self { app_name, caller, app_state: state.clone(), refusal: PhantomData })
    }
}

impl<S: Sync, R: SurfaceError> FromRequestParts<S> for AppName<R> {
    type Rejection = R;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, R> {
        let [app_name] = named::<R, _>(parts, ["app"])?;
        Ok(Self { app_name, refusal: PhantomData })
    }
}

impl<S, R: SurfaceError> FromRequestParts<S> for UserScope<S, R>
where
    S: Clone + Send + Sync,
    StoreProbe: FromRef<S>,
{
    type Rejection = R;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, R> {
        let caller = caller(parts)?;
        let [app_name, user_id] = named::<R, _>(parts, ["app", "user"])?;
        within_reach(parts, &StoreProbe::from_ref(state), &caller, &app_name, Some(&user_id)).await?;
        Ok(Self { app_name, user_id, caller, app_state: state.clone(), refusal: PhantomData })
    }
}

impl<S, R: SurfaceError> FromRequestParts<S> for SessionScope<S, R>
where
    S: Clone + Send + Sync,
    StoreProbe: FromRef<S>,
{
    type Rejection = R;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, R> {
        let caller = caller(parts)?;
        let [app_name, user_id, session_id] = named::<R, _>(parts, ["app", "user", "session"])?;
        within_reach(parts, &StoreProbe::from_ref(state), &caller, &app_name, Some(&user_id)).await?;
        let key = SessionKey::new(&app_name, &user_id, &session_id)?;
        Ok(Self { key, caller, app_state: state.clone(), refusal: PhantomData })
    }
}

/// A right that a handler needs in addition to the right of its scope. It is checked before the body is read. `R` is
/// the form of refusals.
#[derive(Debug)]
pub(crate) struct Needs<N, R>(PhantomData<(N, R)>);

/// A requirement of a handler.
pub(crate) trait Need {
    /// # Errors
    ///
    /// `PermissionDenied` names the right that is missing.
    fn check(caller: &Caller) -> Result<()>;
}

/// The right `admin`.
#[derive(Debug)]
pub(crate) struct Admin;

/// The right `admin` over all apps and users at once.
#[derive(Debug)]
pub(crate) struct AdminOfAll;

/// The right `app`.
#[derive(Debug)]
pub(crate) struct WholeApp;

impl Need for Admin {
    fn check(caller: &Caller) -> Result<()> {
        caller.check(Right::Admin)
    }
}

impl Need for AdminOfAll {
    fn check(caller: &Caller) -> Result<()> {
        caller.check_of_all(Right::Admin)
    }
}

impl Need for WholeApp {
    fn check(caller: &Caller) -> Result<()> {
        caller.check(Right::App)
    }
}

impl<S: Sync, N: Need, R: SurfaceError> FromRequestParts<S> for Needs<N, R> {
    type Rejection = R;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, R> {
        N::check(&caller(parts)?)?;
        Ok(Self(PhantomData))
    }
}

/// Checks that the caller may change data of the user that a body or a query names, as if a path named the user.
///
/// # Errors
///
/// `NotFound` if the user is out of reach; `PermissionDenied` names the right that is missing.
pub(crate) async fn user_of_body(probe: &StoreProbe, caller: &Caller, app_name: &str, user_id: &str) -> Result<()> {
    check(probe, caller, app_name, Some(user_id), Right::Write).await
}

/// Returns the session that a body names, after a check that the caller may change it or run it, as if a path named the
/// session.
///
/// # Errors
///
/// `NotFound` if the session is out of reach, or its name is invalid; `PermissionDenied` names the right that is
/// missing.
pub(crate) async fn session_of_body(
    probe: &StoreProbe,
    caller: &Caller,
    (app_name, user_id, session_id): (&str, &str, &str),
) -> Result<SessionKey> {
    check(probe, caller, app_name, Some(user_id), Right::Write).await?;
    let key = SessionKey::new(app_name, user_id, session_id);
    key.map_err(|e| Error::not_found("there is no such session").with_source(e))
}

/// Returns the caller of a request. The layer that identifies the caller is around every route.
pub(crate) fn caller(parts: &Parts) -> Result<Caller> {
    let caller = parts.extensions.get::<Caller>().cloned();
    caller.ok_or_else(|| Error::internal("the route has no layer that finds out who calls"))
}

/// Returns the values of a path's parameters. They are decoded once, after the path was split into its segments.
pub(crate) fn named<R: SurfaceError, const N: usize>(parts: &Parts, names: [&str; N]) -> Result<[String; N], R> {
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0);
    let mut found = names.map(|_| String::new());
    for (name, found) in names.iter().zip(&mut found) {
        let raw = segment(route, uri.path(), name);
        let raw = raw.ok_or_else(|| Error::internal(format!("the route has no parameter '{name}'")))?;
        *found = R::decode(name, raw)?;
    }
    Ok(found)
}

/// Returns the user that the path of a request names, if the route has a user. It is for layers outside of all routes.
pub(crate) fn user_of_path(request: &Request) -> Option<String> {
    let route = request.extensions().get::<MatchedPath>()?;
    let raw = segment(route.as_str(), request.uri().path(), "user")?;
    Some(percent_decode_str(raw).decode_utf8().ok()?.into_owned())
}

/// Returns the segment of a path that stands at a parameter of its route.
fn segment<'a>(route: &str, path: &'a str, name: &str) -> Option<&'a str> {
    let is_its = |segment: &str| segment.strip_prefix('{').and_then(|s| s.strip_suffix('}')) == Some(name);
    route.split('/').zip(path.split('/')).find_map(|(segment, raw)| is_its(segment).then_some(raw))
}

/// Checks that the data is within the caller's reach and that the caller has the right which the method needs.
async fn within_reach(
    parts: &Parts,
    probe: &StoreProbe,
    caller: &Caller,
    app_name: &str,
    user_id: Option<&str>,
) -> Result<()> {
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    check(probe, caller, app_name, user_id, if reads { Right::Read } else { Right::Write }).await
}

async fn check(probe: &StoreProbe, caller: &Caller, app_name: &str, user_id: Option<&str>, right: Right) -> Result<()> {
    if !caller.reaches(app_name, user_id) {
        // A session out of reach takes the same work and gets the same answer as one that does not exist.
        probe.read_missing_session().await?;
        return Err(Error::new(ErrorKind::NotFound, "there is no such app, user or session"));
    }
    caller.check(right)
}
