//! The sessions of an app or of a user, newest first.

use maud::{Markup, html};
use scratchbook::{Result, Session};
use serde::Deserialize;

use super::address::{self, PageView};
use super::page::{InspectorPage, PageQuery};
use super::search::{Search, SearchPage};
use super::value::{ago, number, size, visible};
use super::{AppPart, PageAnswer, UserScope};
use crate::access::{Caller, Right};
use crate::app_state::AppState;

/// Which sessions are shown.
#[derive(Debug, Deserialize)]
pub(super) struct SessionsQuery {
    /// What is searched for.
    #[serde(default)]
    find: String,
    /// The token of the page.
    page: Option<String>,
}

/// The app, and the user if the list contains only the sessions of one user.
struct Listed<'a> {
    app_name: &'a str,
    user_id: Option<&'a str>,
}

pub(super) async fn of_app(scope: AppPart, PageQuery(query): PageQuery<SessionsQuery>) -> PageAnswer {
    let AppPart { app_name, caller, app_state, .. } = &scope;
    let listed = Listed { app_name, user_id: caller.user() };
    let has_users = caller.reaches(app_name, None) && caller.may(Right::Admin);
    let mut body = list(app_state, caller, &listed, &query, &address::app(app_name)).await?;
    if has_users {
        body = html! { (body) p.pages { a href=(address::users(app_name)) { "Users of this app" } } };
    }
    let above = vec![(app_name.clone(), address::app(app_name))];
    Ok(InspectorPage { title: app_name, above, caller: Some(caller), scripts: &["time.js"], body }.answer())
}

pub(super) async fn of_user(scope: UserScope, PageQuery(query): PageQuery<SessionsQuery>) -> PageAnswer {
    let UserScope { app_name, user_id, caller, app_state, .. } = &scope;
    let listed = Listed { app_name, user_id: Some(user_id) };
    let own = address::user(app_name, user_id);
    let mut body = list(app_state, caller, &listed, &query, &own).await?;
    if caller.may(Right::Write) && caller.may(Right::Admin) {
        body = html! { (body) p.pages { a.danger href={ (own) "/erase" } { "Erase this user" } } };
    }
    let above = vec![(app_name.clone(), address::app(app_name)), (user_id.clone(), own)];
    Ok(InspectorPage { title: user_id, above, caller: Some(caller), scripts: &["time.js"], body }.answer())
}

async fn list(
    app_state: &AppState,
    caller: &Caller,
    listed: &Listed<'_>,
    query: &SessionsQuery,
    own: &str,
) -> Result<Markup> {
    let search = Search { text: &query.find, token: query.page.as_deref() };
    let found = search.run(app_state, caller, listed.app_name, listed.user_id).await?;
    let now = app_state.environment.now();
    Ok(html! {
        div.bar {
            h1 { "Sessions" }
            form.search role="search" method="get" action=(own) {
                input type="search" name="find" value=(query.find) aria-label="Search by title, label or id"
                    placeholder="Title, label NAME=VALUE or id";
                button { "Search" }
            }
        }
        (table(&found, listed, now))
        @if found.sessions.is_empty() && found.by_id.is_none() { (nothing(&found, query)) }
        nav.pages aria-label="Pages" {
            @if query.page.is_some() { a href=(first(own, &query.find)) { "Newest" } }
            @if let Some(next) = &found.next {
                a rel="next" href={ (own) (search.query(next)) } {
                    @if found.sessions.is_empty() { "Search further" } @else { "Older sessions" }
                }
            }
        }
    })
}

fn first(own: &str, find: &str) -> String {
    if find.is_empty() { own.to_owned() } else { format!("{own}?find={}", address::encoded(find)) }
}

fn nothing(found: &SearchPage, query: &SessionsQuery) -> Markup {
    html! {
        p.empty {
            @if query.find.is_empty() {
                "There are no sessions here. A program creates one, or a conversation: "
                code { "scratchbook chat" } " in a terminal, with this server's database."
            }
            @else if found.next.is_some() { "Nothing among the sessions searched so far. Older ones have not been searched yet." }
            @else { "No session has this title, label or id." }
        }
    }
}

fn table(found: &SearchPage, listed: &Listed<'_>, now: f64) -> Markup {
    let sessions: Vec<&Session> = found.by_id.iter().chain(&found.sessions).collect();
    html! {
        @if !sessions.is_empty() {
            table.list {
                thead {
                    tr {
                        th scope="col" { "Session" }
                        @if listed.user_id.is_none() { th scope="col" { "User" } }
                        th.number scope="col" { "Events" }
                        th.number scope="col" { "Size" }
                        th.number scope="col" { "Last change" }
                    }
                }
                tbody { @for session in sessions { (row(session, listed, now)) } }
            }
        }
    }
}

fn row(session: &Session, listed: &Listed<'_>, now: f64) -> Markup {
    let key = session.key();
    html! {
        tr {
            td.name {
                a href=(address::session(key, &PageView::default())) {
                    bdi { (visible(session.title().unwrap_or(session.id()))) }
                }
                @if session.title().is_some() { span.soft.id { bdi { (visible(session.id())) } } }
                @for (name, value) in session.labels().iter().take(6) {
                    span.label { bdi { (visible(name)) @if !value.is_empty() { "=" (visible(value)) } } }
                }
            }
            @if listed.user_id.is_none() {
                td data-name="User" {
                    a.quiet href=(address::user(key.app_name(), key.user_id())) { bdi { (visible(key.user_id())) } }
                }
            }
            td.number data-name="Events" { @match session.known_seq() { Some(seq) => (number(seq)), None => "?" } }
            td.number data-name="Size" { @if let Some(bytes) = session.stored_bytes() { (size(bytes)) } }
            td.number data-name="Last change" { (ago(session.last_update_time(), now)) }
        }
    }
}
