//! The inspector: pages on which people look at sessions and their state, at any event.
//!
//! The module is separate from the APIs: it uses only [`SessionService`](scratchbook::SessionService) and the server's
//! access control. Each page is a link that can be shared and works without a script; scripts fetch parts of the same
//! pages.
//!
//! - `address.rs`: the addresses of all pages. `page.rs`: the frame of each page, its headers, and errors as pages.
//! - `start.rs`: the apps. `sessions.rs`, `search.rs`: the sessions of an app or a user. `users.rs`: the users of an
//!   app. `erase.rs`: all data of a user.
//! - `overview/`: what the store has done in the last half hour.
//! - `session/`: one session: its conversation beside its state at an event.
//! - `value.rs`: values, times and sizes as text, cut to what fits. `masks.rs`: hides what nobody may see.
//! - `form.rs`: forms, which are accepted only from the server's own pages.
//! - `assets.rs`, `assets/`: the style, and a script for each behaviour.

mod address;
mod assets;
mod erase;
mod form;
mod masks;
mod overview;
mod page;
mod search;
mod session;
mod sessions;
mod start;
mod users;
mod value;

use axum::Router;
use axum::response::Response;
use axum::routing::get;

use crate::app_state::AppState;
use crate::scope;
use crate::surface::INSPECTOR;

pub(crate) use address::of_conflict;
pub(crate) use overview::WithActivity;
pub(crate) use page::refusal;

// The arguments of handlers: an app, a user or a session together with the caller. A refusal is answered with a page.
type AppPart = scope::AppPart<AppState, page::PageError>;
type AppScope = scope::AppScope<AppState, page::PageError>;
type UserScope = scope::UserScope<AppState, page::PageError>;
type SessionScope = scope::SessionScope<AppState, page::PageError>;
type Needs<N> = scope::Needs<N, page::PageError>;
type PageAnswer = Result<Response, page::PageError>;

/// Returns the routes of the inspector.
pub(crate) fn routes() -> Router<AppState> {
    let pages = Router::new()
        .route("/", get(start::page))
        .route("/assets/{file}", get(assets::file))
        .route("/overview", get(overview::page))
        .route("/apps/{app}", get(sessions::of_app))
        .route("/apps/{app}/users", get(users::page))
        .route("/apps/{app}/users/{user}", get(sessions::of_user))
        .route("/apps/{app}/users/{user}/erase", get(erase::ask).post(erase::erase))
        .nest("/apps/{app}/users/{user}/sessions/{session}", session::routes())
        .fallback(page::not_found)
        .method_not_allowed_fallback(page::no_method);
    Router::new().route(&format!("{INSPECTOR}/"), get(start::page)).nest(INSPECTOR, pages)
}
