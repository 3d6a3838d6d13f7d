//! Forks, rewinds and deletions. What destroys something asks first, and says what is lost.

use axum::extract::Query;
use maud::{Markup, html};
use scratchbook::session::ForkConfig;
use scratchbook::{Error, Session};
use serde::Deserialize;

use super::super::address::{self, View};
use super::super::form::{Form, see_other};
use super::super::page::Page;
use super::super::value::{number, visible};
use super::super::{Answer, SessionScope};
use super::frame;
use super::read::Reader;
use crate::access::Right;

/// A run, before which a session is rewound.
#[derive(Debug, Deserialize)]
pub(super) struct Before {
    #[serde(default)]
    run: String,
}

/// Copies the session up to an event, and opens the copy.
pub(super) async fn fork(scope: SessionScope, form: Form) -> Answer {
    scope.caller.check(Right::Read)?;
    let mut config = ForkConfig::default();
    config.at = form.find("at").map(|at| at.parse()).transpose().map_err(|_| Error::invalid("at is no number"))?;
    let session = scope.app_state.store.sessions.fork_session(&scope.key, config).await?;
    Ok(see_other(&address::session(session.key(), &View::default())))
}

pub(super) async fn ask_to_rewind(scope: SessionScope, Query(before): Query<Before>) -> Answer {
    let reader = Reader::new(&scope);
    let head = reader.head().await?;
    let run = &before.run;
    let words = html! {
        p { "The session's own keys and its artifacts get the values that they had before run " b { bdi { (visible(run)) } }
            ". What later runs wrote to them is no longer in the state." }
        p { "All events stay, and so do the keys of the user and the app. The rewind is an event of its own." }
    };
    ask(&scope, &head, "rewind", "Rewind", &words, &html! { input type="hidden" name="run" value=(run); })
}

pub(super) async fn rewind(scope: SessionScope, form: Form) -> Answer {
    scope.caller.check(Right::Read)?;
    scope.app_state.store.rewind(&scope.key, &form.field("run")).await?;
    Ok(see_other(&address::session(&scope.key, &View::default())))
}

pub(super) async fn ask_to_delete(scope: SessionScope) -> Answer {
    let reader = Reader::new(&scope);
    let head = reader.head().await?;
    let words = html! {
        p { "Its " @if let Some(last) = head.known_seq() { (number(last)) " " } "events, its own keys and its artifacts are lost for good." }
        p { "The keys of the user and the app stay." }
    };
    ask(&scope, &head, "delete", "Delete", &words, &html! {})
}

pub(super) async fn delete(scope: SessionScope, _: Form) -> Answer {
    scope.caller.check(Right::Read)?;
    scope.app_state.store.sessions.delete_session(&scope.key).await?;
    Ok(see_other(&address::user(scope.key.app_name(), scope.key.user_id())))
}

/// A page that asks before something is lost.
fn ask(scope: &SessionScope, head: &Session, part: &str, word: &str, words: &Markup, fields: &Markup) -> Answer {
    scope.caller.check(Right::Write)?;
    let body = html! {
        section.ask {
            h1 { (word) " " bdi { (visible(head.title().unwrap_or(head.id()))) } "?" }
            (words)
            form method="post" action=(address::part(head.key(), part, &View::default())) {
                (fields)
                div.buttons {
                    button.danger { (word) }
                    a href=(address::session(head.key(), &View::default())) { "Keep it" }
                }
            }
        }
    };
    let page = Page { title: word, above: frame::above(head), caller: Some(&scope.caller), scripts: &[], body };
    Ok(page.answer())
}

/// The buttons for the whole session.
pub(super) fn markup(head: &Session, view: &View) -> Markup {
    let key = head.key();
    html! {
        form.tools method="post" action=(address::part(key, "fork", &View::default())) {
            input type="hidden" name="at" value=[view.at] disabled[view.at.is_none()];
            button.plain { @if let Some(at) = view.at { "Fork at event " (number(at)) } @else { "Fork" } }
            a.danger href=(address::part(key, "delete", &View::default())) { "Delete" }
        }
    }
}
