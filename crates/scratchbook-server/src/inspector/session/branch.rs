//! Forks, rewinds, pruning and deletions. Each destructive action first asks for confirmation and says what will be
//! lost.

use maud::{Markup, html};
use scratchbook::session::{ForkConfig, Prune};
use scratchbook::{Error, Session};
use serde::Deserialize;

use super::super::address::{self, PageView};
use super::super::form::{Form, see_other};
use super::super::page::{InspectorPage, PageQuery};
use super::super::value::{number, visible};
use super::super::{Needs, PageAnswer, SessionScope};
use super::frame;
use super::read::SessionReader;
use crate::access::{Caller, Right};
use crate::scope::Admin;

/// How many events are kept by default.
const KEPT: u64 = 1_000;
/// How many events one commit removes.
const PRUNED_AT_ONCE: usize = 1_000;
/// How many such commits one request makes.
const PRUNED_STEPS: usize = 50;

/// The run before which a session is rewound.
#[derive(Debug, Deserialize)]
pub(super) struct Before {
    #[serde(default)]
    run: String,
}

/// Copies the session up to an event, and opens the copy.
pub(super) async fn fork(scope: SessionScope, form: Form) -> PageAnswer {
    scope.caller.check(Right::Read)?;
    let mut config = ForkConfig::default();
    config.at = form.find("at").map(|at| at.parse()).transpose().map_err(|_| Error::invalid("at is no number"))?;
    let session = scope.app_state.store.sessions.fork_session(&scope.key, config).await?;
    Ok(see_other(&address::session(session.key(), &PageView::default())))
}

pub(super) async fn ask_to_rewind(scope: SessionScope, PageQuery(before): PageQuery<Before>) -> PageAnswer {
    let reader = SessionReader::new(&scope);
    let head = reader.head().await?;
    let run = &before.run;
    let words = html! {
        p { "The session's own keys and its artifacts get the values that they had before run " b { bdi { (visible(run)) } }
            ". What later runs wrote to them is no longer in the state." }
        p { "All events stay, and so do the keys of the user and the app. The rewind is an event of its own." }
    };
    ask(&scope, &head, "rewind", "Rewind", &words, &html! { input type="hidden" name="run" value=(run); })
}

pub(super) async fn rewind(scope: SessionScope, form: Form) -> PageAnswer {
    scope.caller.check(Right::Read)?;
    scope.app_state.store.rewind(&scope.key, &form.field("run")).await?;
    Ok(see_other(&address::session(&scope.key, &PageView::default())))
}

pub(super) async fn ask_to_delete(scope: SessionScope) -> PageAnswer {
    let reader = SessionReader::new(&scope);
    let head = reader.head().await?;
    let words = html! {
        p { "Its " @if let Some(last) = head.known_seq() { (number(last)) " " } "events, its own keys and its artifacts are lost for good." }
        p { "The keys of the user and the app stay." }
    };
    ask(&scope, &head, "delete", "Delete", &words, &html! {})
}

pub(super) async fn delete(scope: SessionScope, _: Form) -> PageAnswer {
    scope.caller.check(Right::Read)?;
    scope.app_state.store.sessions.delete_session(&scope.key).await?;
    Ok(see_other(&address::user(scope.key.app_name(), scope.key.user_id())))
}

/// Asks which events to remove.
pub(super) async fn ask_to_prune(
    scope: SessionScope,
    PageQuery(view): PageQuery<PageView>,
    _: Needs<Admin>,
) -> PageAnswer {
    let head = SessionReader::new(&scope).head().await?;
    let last = head.known_seq().unwrap_or_default();
    let before = view.before.or(view.at).unwrap_or(last.saturating_sub(KEPT) + 1).max(2);
    let words = html! {
        p { "The events before this one are lost for good, and with them what the state was then and who wrote it." }
        p { "The state stays as it is, and so do the numbers of the later events." }
    };
    let fields = html! {
        label { "First event to keep" input type="number" name="before" min="2" max=(last) value=(before) required; }
    };
    ask(&scope, &head, "prune", "Prune", &words, &fields)
}

pub(super) async fn prune(scope: SessionScope, _: Needs<Admin>, form: Form) -> PageAnswer {
    scope.caller.check(Right::Read)?;
    let before = form.field("before");
    let before =
        before.parse().map_err(|_| Error::invalid(format!("the first event to keep is '{before}', not a number")))?;
    // One request removes only a limited number of events; the next request removes the rest.
    for _ in 0..PRUNED_STEPS {
        let pruned = scope.app_state.store.sessions.prune(Prune::events(&scope.key, before), PRUNED_AT_ONCE).await?;
        if pruned < PRUNED_AT_ONCE as u64 {
            return Ok(see_other(&address::session(&scope.key, &PageView::default())));
        }
    }
    Ok(see_other(&address::part(&scope.key, "prune", &PageView { before: Some(before), ..PageView::default() })))
}

/// Returns a page that asks for confirmation before data is lost.
fn ask(scope: &SessionScope, head: &Session, part: &str, word: &str, words: &Markup, fields: &Markup) -> PageAnswer {
    scope.caller.check(Right::Write)?;
    let body = html! {
        section.ask {
            h1 { (word) " " bdi { (visible(head.title().unwrap_or(head.id()))) } "?" }
            (words)
            form method="post" action=(address::part(head.key(), part, &PageView::default())) {
                (fields)
                div.buttons {
                    button.danger { (word) }
                    a href=(address::session(head.key(), &PageView::default())) { "Keep it" }
                }
            }
        }
    };
    let page =
        InspectorPage { title: word, above: frame::above(head), caller: Some(&scope.caller), scripts: &[], body };
    Ok(page.answer())
}

/// Returns the buttons for the whole session that the caller may use.
pub(super) fn markup(head: &Session, view: &PageView, caller: &Caller) -> Markup {
    let key = head.key();
    let part = |part: &str| address::part(key, part, &PageView::default());
    let may_write = caller.may(Right::Write);
    html! {
        div.tools {
            @if may_write {
                form.fork method="post" action=(address::part(key, "fork", &PageView::default())) {
                    input type="hidden" name="at" value=[view.at] disabled[view.at.is_none()];
                    button.plain { @if let Some(at) = view.at { "Fork at event " (number(at)) } @else { "Fork" } }
                }
            }
            a href=(part("export")) download { "Export" }
            @if may_write { a href=(part("details")) { "Title and labels" } }
            @if may_write && caller.may(Right::Admin) { a.danger href=(part("prune")) { "Prune" } }
            @if may_write { a.danger href=(part("delete")) { "Delete" } }
        }
    }
}
