//! The users of an app.

use maud::html;
use scratchbook::session::StateOwner;
use serde::Deserialize;

use super::page::{InspectorPage, PageQuery};
use super::value::visible;
use super::{AppScope, Needs, PageAnswer, address};
use crate::scope::Admin;

/// How many users a page has.
const USERS: usize = 200;

/// Which users are shown.
#[derive(Debug, Deserialize)]
pub(super) struct ListUsers {
    /// Show only users after this one.
    after: Option<String>,
}

pub(super) async fn page(scope: AppScope, _: Needs<Admin>, PageQuery(query): PageQuery<ListUsers>) -> PageAnswer {
    let AppScope { app_name, caller, app_state, .. } = &scope;
    let after = match &query.after {
        Some(user_id) => StateOwner::user(app_name, user_id)?,
        None => StateOwner::app(app_name)?,
    };
    let owners = app_state.store.sessions.list_owners(Some(&after), USERS + 1).await?;
    let users: Vec<_> =
        owners.iter().filter(|owner| owner.app_name() == app_name).filter_map(StateOwner::user_id).collect();
    let shown = &users[..users.len().min(USERS)];
    let own = address::users(app_name);
    let body = html! {
        h1 { "Users" }
        @if shown.is_empty() { p.empty { "No user of this app has data." } }
        ul.columns {
            @for user_id in shown { li { a href=(address::user(app_name, user_id)) { bdi { (visible(user_id)) } } } }
        }
        @if let Some(last) = shown.last().filter(|_| users.len() > USERS) {
            p.pages { a rel="next" href={ (own) "?after=" (address::encoded(last)) } { "More users" } }
        }
    };
    let above = vec![(app_name.clone(), address::app(app_name)), ("users".to_owned(), own.clone())];
    Ok(InspectorPage { title: "Users", above, caller: Some(caller), scripts: &[], body }.answer())
}
