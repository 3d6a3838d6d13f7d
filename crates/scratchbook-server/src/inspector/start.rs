//! The first page: the apps that the caller reaches.

use std::collections::BTreeSet;

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};
use scratchbook::session::{ListSessionsConfig, StateOwner};
use scratchbook::{ErrorKind, Result, Session};
use serde::Deserialize;

use super::page::{Page, Query};
use super::value::{ago, visible};
use super::{Answer, ROOT, address};
use crate::access::{Caller, Right};
use crate::app_state::AppState;

/// How many apps a page has.
const APPS: usize = 50;

/// A user that comes after all others of an app: no id is longer.
const LAST_USER: [char; 128] = [char::MAX; 128];

/// Which apps are shown.
#[derive(Debug, Deserialize)]
pub(super) struct ListApps {
    /// Those after this one.
    #[serde(default)]
    after: String,
}

/// An app, and its session that was changed last.
struct Row {
    name: String,
    latest: Option<Session>,
}

pub(super) async fn page(
    State(app_state): State<AppState>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<ListApps>,
) -> Answer {
    caller.check(Right::Read)?;
    let (names, more) = names(&app_state, &caller, &query.after).await?;
    let mut rows = Vec::with_capacity(names.len());
    for name in names {
        let latest = latest(&app_state, &caller, &name).await?;
        let is_hosted = app_state.apps.get(&name).is_some();
        // A caller that is held to a user does not learn of apps in which the user has nothing.
        if is_hosted || latest.is_some() || caller.user().is_none() {
            rows.push(Row { name, latest });
        }
    }
    let body = body(&app_state, &rows, more.as_deref());
    Ok(Page { title: "Apps", above: Vec::new(), caller: Some(&caller), scripts: &["time.js"], body }.answer())
}

/// The names of a page of apps, hosted or with data, and the last one if there may be more.
async fn names(app_state: &AppState, caller: &Caller, after: &str) -> Result<(Vec<String>, Option<String>)> {
    let hosted = app_state.apps.iter().map(|(name, _)| name.to_owned());
    let mut names: BTreeSet<String> = hosted.filter(|name| name.as_str() > after).collect();
    let last_user: String = LAST_USER.iter().collect();
    let mut place = if after.is_empty() { None } else { Some(StateOwner::user(after, &last_user)?) };
    let mut more = None;
    for _ in 0..=APPS {
        let owners = match app_state.store.sessions.list_owners(place.as_ref(), 1).await {
            // Not every store can say who has data in it.
            Err(error) if error.kind() == ErrorKind::Unsupported => break,
            owners => owners?,
        };
        let Some(owner) = owners.first() else { break };
        names.insert(owner.app_name().to_owned());
        if names.len() > APPS {
            break;
        }
        place = Some(StateOwner::user(owner.app_name(), &last_user)?);
    }
    let mut names: Vec<_> = names.into_iter().collect();
    if names.len() > APPS {
        names.truncate(APPS);
        more = names.last().cloned();
    }
    names.retain(|name| caller.reaches_app(name));
    Ok((names, more))
}

async fn latest(app_state: &AppState, caller: &Caller, app_name: &str) -> Result<Option<Session>> {
    let config = ListSessionsConfig::default().newest_first().with_page_size(1).with_page_bytes(1);
    let config = match caller.user() {
        Some(user_id) => config.with_user_id(user_id),
        None => config,
    };
    Ok(app_state.store.sessions.list_sessions(app_name, &config).await?.sessions.into_iter().next())
}

fn body(app_state: &AppState, rows: &[Row], more: Option<&str>) -> Markup {
    let now = app_state.environment.now();
    html! {
        div.bar {
            h1 { "Apps" }
            a href={ (ROOT) "/overview" } { "Overview" }
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
                                @if app_state.apps.get(&row.name).is_some() { span.badge { "agent here" } }
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
            p.pages { a href={ (ROOT) "?after=" (address::encoded(last)) } rel="next" { "More apps" } }
        }
    }
}
