//! The first page: the apps that the caller may access.

use std::collections::BTreeSet;

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};
use scratchbook::session::{ListSessionsConfig, ListStateConfig, StateOwner};
use scratchbook::{ErrorKind, Result, Session, SessionKey};
use serde::Deserialize;

use super::page::{InspectorPage, PageQuery};
use super::value::{ago, visible};
use super::{PageAnswer, address};
use crate::access::{Caller, Right};
use crate::app_state::AppState;
use crate::surface::INSPECTOR;

/// How many apps a page has.
const APPS: usize = 50;
/// How many apps are read for a page at most, since some may not be shown to the caller.
const LOOKS: usize = 500;

/// A user id that sorts after all other user ids of an app, because no id is longer.
const LAST_USER: [char; 128] = [char::MAX; 128];

/// Which apps are shown.
#[derive(Debug, Deserialize)]
pub(super) struct ListApps {
    /// Show only apps after this one.
    #[serde(default)]
    after: String,
}

/// An app, and its session that was changed last.
struct AppRow {
    name: String,
    latest: Option<Session>,
}

pub(super) async fn page(
    State(app_state): State<AppState>,
    Extension(caller): Extension<Caller>,
    PageQuery(query): PageQuery<ListApps>,
) -> PageAnswer {
    caller.check(Right::Read)?;
    let (names, more) = names(&app_state, &caller, &query.after).await?;
    let mut rows = Vec::with_capacity(names.len());
    for name in names {
        let latest = latest(&app_state, &caller, &name).await?;
        rows.push(AppRow { name, latest });
    }
    let body = body(&app_state, &rows, more.as_deref());
    Ok(InspectorPage { title: "Apps", above: Vec::new(), caller: Some(&caller), scripts: &["time.js"], body }.answer())
}

/// Returns the names of a page of apps that are hosted or have data. If there may be more apps, returns the last name
/// too.
async fn names(app_state: &AppState, caller: &Caller, after: &str) -> Result<(Vec<String>, Option<String>)> {
    let hosted = app_state.apps.iter().map(|(name, _)| name.to_owned());
    let mut names: BTreeSet<String> = hosted.filter(|name| name.as_str() > after && caller.reaches_app(name)).collect();
    let last_user: String = LAST_USER.iter().collect();
    let mut place = if after.is_empty() { None } else { Some(StateOwner::user(after, &last_user)?) };
    let mut is_end = false;
    for _ in 0..LOOKS {
        let owners = match app_state.store.sessions.list_owners(place.as_ref(), 1).await {
            // Not every store can list the users that have data.
            Err(error) if error.kind() == ErrorKind::Unsupported => Vec::new(),
            owners => owners?,
        };
        let Some(app_name) = owners.first().map(StateOwner::app_name) else {
            is_end = true;
            break;
        };
        place = Some(StateOwner::user(app_name, &last_user)?);
        if is_shown(app_state, caller, app_name).await? {
            names.insert(app_name.to_owned());
        }
        if names.len() > APPS {
            break;
        }
    }
    if let Some(place) = place.filter(|_| !is_end) {
        // After this place there may be apps that were not read yet, so hosted apps after it wait for a later page.
        names.retain(|name| name.as_str() <= place.app_name());
    }
    let is_end = is_end && names.len() <= APPS;
    let names: Vec<_> = names.into_iter().take(APPS).collect();
    let more = names.last().cloned().filter(|_| !is_end);
    Ok((names, more))
}

/// Returns whether a caller may see an app with data. A caller that is restricted to a user sees only apps in which
/// this user has a session, a key or an artifact.
async fn is_shown(app_state: &AppState, caller: &Caller, app_name: &str) -> Result<bool> {
    if !caller.reaches_app(app_name) {
        return Ok(false);
    }
    let Some(user_id) = caller.user() else { return Ok(true) };
    Ok(latest(app_state, caller, app_name).await?.is_some() || has_own_data(app_state, app_name, user_id).await?)
}

/// Returns whether a user has a key or an artifact outside of sessions.
async fn has_own_data(app_state: &AppState, app_name: &str, user_id: &str) -> Result<bool> {
    let store = &app_state.store;
    let one_key = ListStateConfig::default().with_page_size(1).with_page_bytes(1);
    let page = store.sessions.list_state(&StateOwner::user(app_name, user_id)?, &one_key).await?;
    if !page.values.is_empty() {
        return Ok(true);
    }
    // All sessions of the user list these artifacts, so the session need not exist.
    Ok(!store.artifacts.list_artifacts(&SessionKey::new(app_name, user_id, "-")?).await?.is_empty())
}

async fn latest(app_state: &AppState, caller: &Caller, app_name: &str) -> Result<Option<Session>> {
    let config = ListSessionsConfig::default().newest_first().with_page_size(1).with_page_bytes(1);
    let config = match caller.user() {
        Some(user_id) => config.with_user_id(user_id),
        None => config,
    };
    Ok(app_state.store.sessions.list_sessions(app_name, &config).await?.sessions.into_iter().next())
}

fn body(app_state: &AppState, rows: &[AppRow], more: Option<&str>) -> Markup {
    let now = app_state.environment.now();
    html! {
        div.bar {
            h1 { "Apps" }
            a href={ (INSPECTOR) "/overview" } { "Overview" }
        }
        @if rows.is_empty() {
            p.empty { "Nothing is stored yet. A session that an agent or a program makes appears here." }
        } @else {
            ul.cards {
                @for row in rows {
                    li {
                        a.card href=(address::app(&row.name)) {
                            span.head {
                                b { bdi { (visible(&row.name)) } }
                                @if app_state.apps.get(&row.name).is_some() { span.badge { "agent hosted here" } }
                            }
                            span.soft {
                                @match &row.latest {
                                    Some(session) => { "last change " (ago(session.last_update_time(), now)) }
                                    None => "no sessions yet",
                                }
                            }
                        }
                    }
                }
            }
        }
        @if let Some(last) = more {
            p.pages { a href={ (INSPECTOR) "?after=" (address::encoded(last)) } rel="next" { "More apps" } }
        }
    }
}
