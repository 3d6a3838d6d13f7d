//! Erases a user: everything that an app stores about the user.

use maud::html;
use scratchbook::session::{ListSessionsConfig, StateOwner};

use super::form::{Form, see_other};
use super::page::InspectorPage;
use super::value::{counted, visible};
use super::{Needs, PageAnswer, UserScope, address};
use crate::access::Right;
use crate::scope::Admin;

/// How many sessions the confirmation page counts at most.
const COUNTED: usize = 1_000;

/// Asks for confirmation and says what will be lost.
pub(super) async fn ask(scope: UserScope, _: Needs<Admin>) -> PageAnswer {
    let UserScope { app_name, user_id, caller, app_state, .. } = &scope;
    let config = ListSessionsConfig::default().with_user_id(user_id).with_page_size(COUNTED).with_page_bytes(1 << 20);
    let page = app_state.store.sessions.list_sessions(app_name, &config).await?;
    let keys = app_state.store.sessions.get_state(&StateOwner::user(app_name, user_id)?).await?.len();
    let own = address::user(app_name, user_id);
    let body = html! {
        section.ask {
            h1 { "Erase all data of " bdi { (visible(user_id)) } "?" }
            p {
                (counted(page.sessions.len(), "session")) @if page.next_page_token.is_some() { " or more" } " with their events, "
                (counted(keys, "key")) " of the user with their history, and all artifacts are lost for good."
            }
            p { "The keys of the app stay, without the user's name in their history." }
            form method="post" action={ (own) "/erase" } {
                div.buttons {
                    button.danger { "Erase" }
                    a href=(own) { "Keep it" }
                }
            }
        }
    };
    let above = vec![(app_name.clone(), address::app(app_name)), (user_id.clone(), own.clone())];
    Ok(InspectorPage { title: "Erase", above, caller: Some(caller), scripts: &[], body }.answer())
}

/// Erases the user.
pub(super) async fn erase(scope: UserScope, _: Needs<Admin>, _: Form) -> PageAnswer {
    scope.caller.check(Right::Read)?;
    scope.app_state.store.sessions.delete_user(&scope.app_name, &scope.user_id).await?;
    Ok(see_other(&address::app(&scope.app_name)))
}
