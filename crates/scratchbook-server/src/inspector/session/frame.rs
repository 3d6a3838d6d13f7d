//! The page of a session around its parts: the facts about the session, and the slider over its events.

use std::sync::Arc;

use maud::{Markup, html};
use scratchbook::{Event, Session};

use super::super::SessionScope;
use super::super::address::{self, PageView};
use super::super::value::{ago, number, size, visible};
use super::history::{self, KeyHistory};
use super::read::{SessionReader, ShownState};
use super::{branch, conversation, state, talk};

/// Returns the pages above this one: their names and addresses.
pub(super) fn above(head: &Session) -> Vec<(String, String)> {
    let key = head.key();
    vec![
        (key.app_name().to_owned(), address::app(key.app_name())),
        (key.user_id().to_owned(), address::user(key.app_name(), key.user_id())),
        (key.session_id().to_owned(), address::session(key, &PageView::default())),
    ]
}

pub(super) fn body(
    scope: &SessionScope,
    reader: &SessionReader<'_>,
    head: &Session,
    view: &PageView,
    events: &[Arc<Event>],
    moment: &ShownState,
    history: Option<&KeyHistory>,
) -> Markup {
    html! {
        (about(head, view, reader))
        @if let Some(last) = head.known_seq() { (travel(head, view, moment.at, last)) }
        div.split {
            section.left aria-label="Conversation" {
                (conversation::markup(reader, head, view, events))
                (talk::markup(scope, head))
            }
            aside.right aria-label="State" tabindex="-1" {
                div #key { @if let Some(history) = history { (history::markup(head, view, history)) } }
                (state::markup(head, view, moment))
            }
        }
    }
}

fn about(head: &Session, view: &PageView, reader: &SessionReader<'_>) -> Markup {
    let now = reader.now;
    html! {
        div.about {
            h1 { bdi { (visible(head.title().unwrap_or(head.id()))) } }
            (branch::markup(head, view, reader.caller))
            p.facts {
                @if head.title().is_some() { span { bdi { (visible(head.id())) } } }
                @if let Some(last) = head.known_seq() { span { (number(last)) " events" } }
                @if let Some(bytes) = head.stored_bytes() { span { (size(bytes)) } }
                span { "last change " (ago(head.last_update_time(), now)) }
                @if let Some(time) = head.create_time() { span { "created " (ago(time, now)) } }
                @if let Some(time) = head.expire_time() { span { "expires " (ago(time, now)) } }
                @for (name, value) in head.labels() {
                    span.label { bdi { (visible(name)) @if !value.is_empty() { "=" (visible(value)) } } }
                }
                span #live role="status" data-own {}
            }
        }
    }
}

/// Returns the slider. Without scripts it is a form.
fn travel(head: &Session, view: &PageView, at: u64, last: u64) -> Markup {
    let key = head.key();
    let here = PageView { key: view.key.clone(), find: view.find.clone(), ..PageView::default() };
    let to = |seq: u64| address::session(key, &view.moved_to(seq));
    html! {
        form.travel #travel hidden[last == 0] method="get" action=(address::session(key, &PageView::default()))
            data-page=(address::session(key, &PageView::default())) data-last=(last)
            data-live=(address::part(key, "live", &PageView::default())) {
            a.step href=(to(at.saturating_sub(1))) data-step="-1" rel="prev" aria-label="Event before" { "‹" }
            input type="range" name="at" min="0" max=(last) value=(at) aria-label="Event" #slider;
            a.step href=(to(at.saturating_add(1).min(last))) data-step="1" rel="next" aria-label="Next event" { "›" }
            output for="slider" #place { (number(at)) " / " (number(last)) }
            a.jump href="#state" { "State" }
            @if let Some(name) = &view.key { input type="hidden" name="key" value=(name); }
            a.now href=(address::session(key, &here)) aria-current=[view.at.is_none().then_some("true")] { "Now" }
            label.compare {
                "Compare with "
                input type="number" name="with" min="0" max=(last) value=[view.with] inputmode="numeric";
            }
            button { "Show" }
        }
    }
}
