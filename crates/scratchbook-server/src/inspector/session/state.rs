//! The state at an event, grouped by scope, with the changes.

use std::collections::BTreeMap;

use maud::{Markup, html};
use scratchbook::session::KeyDiff;
use scratchbook::{Scope, Session, SessionKey};
use serde_json::Value;

use super::super::address::{self, PageView, encoded};
use super::super::masks::Masks;
use super::super::value::{Cut, block, line, number, size, visible};
use super::read::ShownState;

/// How many keys are shown at once.
const KEYS: usize = 200;
/// How many bytes of a value are shown on one line.
const LINE: usize = 120;
/// How many bytes of a value are shown in a block.
const BLOCK: usize = 1500;
/// How many bytes of HTML the shown state has at most.
const BYTES: usize = 34 << 10;
/// How many changes are shown.
const CHANGES: usize = 40;

/// Returns the state as HTML, for a whole page or to replace the state on a page.
pub(super) fn markup(head: &Session, view: &PageView, moment: &ShownState) -> Markup {
    let (key, masks, last) = (head.key(), Masks::of(head), head.known_seq());
    html! {
        section #state aria-labelledby="state-head" data-at=(moment.at) {
            h2 #state-head {
                @match (view.at, last) {
                    (Some(0), _) => "State at the start",
                    (Some(at), Some(last)) => { "State at event " (number(at)) span.soft { " of " (number(last)) } }
                    (Some(at), None) => { "State at event " (number(at)) }
                    (None, _) => { "State " span.soft { "now" } }
                }
            }
            @match &moment.state {
                Err(why) => p.empty { (why) },
                Ok(state) => {
                    (changes(key, view, moment, &masks))
                    (keys(key, view, moment, &masks, state.iter()))
                }
            }
        }
    }
}

/// Returns what has changed since the event with which the state is compared.
fn changes(key: &SessionKey, view: &PageView, moment: &ShownState, masks: &Masks) -> Markup {
    let diff = &moment.diff;
    html! {
        @if let Some(base) = moment.base {
            div.changes {
                h3 {
                    @match (view.with, view.at) {
                        (Some(_), _) => { "Changed since event " (number(base)) }
                        (None, Some(at)) => { "Changed at event " (number(at)) }
                        (None, None) => "Changed at the last event",
                    }
                    @if diff.is_empty() { span.soft { " nothing" } }
                }
                @if !diff.is_empty() {
                    ul {
                        @for (name, change) in diff.iter().take(CHANGES) { (changed(key, view, moment, masks, name, change)) }
                    }
                    @if diff.len() > CHANGES { p.soft { (number((diff.len() - CHANGES) as u64)) " more keys have changed" } }
                }
            }
        }
    }
}

fn changed(
    key: &SessionKey,
    view: &PageView,
    moment: &ShownState,
    masks: &Masks,
    name: &str,
    change: &KeyDiff,
) -> Markup {
    let shown = |value: &Option<Value>| value.as_ref().map(|value| line(&masks.of_key(name, value), LINE).text);
    let (before, after) = (shown(&change.before), shown(&change.after));
    let (kind, word) = match (&change.before, &change.after) {
        (None, _) => ("added", "added"),
        (_, None) => ("removed", "removed"),
        _ => ("changed", "changed"),
    };
    let is_elsewhere = moment.event.as_ref().is_some_and(|event| !event.actions.state_delta.contains(name));
    html! {
        li class=(kind) {
            span.mark role="img" aria-label=(word) {}
            a.key href=(address::session(key, &view.with_key(name))) data-key=(name) { bdi { (visible(name)) } }
            @if let Some(before) = &before { " " del { code { (before) } } }
            @if let Some(after) = after { @if before.is_some() { " → " } @else { " = " } ins { code { (after) } } }
            @if is_elsewhere { " " span.tag title="Another session or program wrote it since the event before" { "elsewhere" } }
        }
    }
}

/// Returns a page of the keys, by scope.
fn keys<'s>(
    key: &SessionKey,
    view: &PageView,
    moment: &ShownState,
    masks: &Masks,
    state: impl Iterator<Item = (String, &'s Value)>,
) -> Markup {
    let find = view.find.as_deref().unwrap_or_default().to_lowercase();
    let after = view.after.as_deref().map(place);
    let mut all: BTreeMap<(u8, String), &Value> = BTreeMap::new();
    let mut count = 0_usize;
    for (name, value) in state {
        count += 1;
        let place = place(&name);
        if (find.is_empty() || name.to_lowercase().contains(&find)) && after.as_ref().is_none_or(|after| place > *after)
        {
            all.insert(place, value);
        }
    }
    let (mut shown, mut left) = (Vec::new(), BYTES);
    for ((order, name), value) in all.iter().take(KEYS) {
        let row = row(key, view, moment, masks, name, value).into_string();
        let Some(rest) = left.checked_sub(row.len()).or(shown.is_empty().then_some(0)) else { break };
        left = rest;
        shown.push((*order, name.clone(), row));
    }
    let more = (shown.len() < all.len()).then(|| shown.last().map(|(_, name, _)| name.clone())).flatten();
    html! {
        form.find role="search" method="get" action=(address::session(key, &PageView::default())) data-part=(address::part(key, "state", &PageView::default())) data-into="#state" {
            @if let Some(at) = view.at { input type="hidden" name="at" value=(at); }
            @if let Some(with) = view.with { input type="hidden" name="with" value=(with); }
            @if let Some(name) = &view.key { input type="hidden" name="key" value=(name); }
            input type="search" name="find" value=(view.find.as_deref().unwrap_or_default()) aria-label="Find keys"
                placeholder={ "Find in " (number(count as u64)) " keys" };
        }
        @if shown.is_empty() { p.empty { @if find.is_empty() { "No keys." } @else { "No key with this in its name." } } }
        @for group in shown.chunk_by(|(one, ..), (other, ..)| one == other) {
            @let order = group.first().map(|(order, ..)| *order).unwrap_or_default();
            div.scope id={ "scope-" (order) } {
                h3 { (heading(order)) }
                @for (.., row) in group { (maud::PreEscaped(row)) }
            }
        }
        @if let Some(name) = more {
            @let next = PageView { after: Some(name), ..view.clone() };
            p.pages {
                a href=(address::session(key, &next)) data-part=(address::part(key, "state", &next)) data-into="#state" {
                    (number((all.len() - shown.len()) as u64)) " more keys"
                }
            }
        }
    }
}

/// Returns the sort order of a key: the session's keys come first, then the user's and the app's, each in byte order.
fn place(name: &str) -> (u8, String) {
    let order = match Scope::split(name).0 {
        Scope::User => 1,
        Scope::App => 2,
        _ => 0,
    };
    (order, name.to_owned())
}

fn heading(order: u8) -> &'static str {
    match order {
        1 => "User",
        2 => "App",
        _ => "Session",
    }
}

fn row(key: &SessionKey, view: &PageView, moment: &ShownState, masks: &Masks, name: &str, value: &Value) -> Markup {
    let value = masks.of_key(name, value);
    let Cut { text, is_whole } = line(&value, LINE);
    let is_chosen = view.key.as_deref() == Some(name);
    let link = address::session(key, &view.with_key(name));
    let kind = moment.diff.get(name).map(|change| if change.before.is_none() { "added" } else { "changed" });
    html! {
        div.row id={ "key-" (encoded(name)) } class=[kind] aria-current=[is_chosen.then_some("true")] {
            a.key href=(link) data-key=(name) { bdi { (visible(name)) } }
            @if is_whole && !text.contains(['{', '[']) || text == "{}" || text == "[]" {
                code.value { (text) }
            } @else {
                @let full = block(&value, BLOCK);
                details.value {
                    summary { code { (text) @if !is_whole { "…" } } }
                    pre { (full.text) @if !full.is_whole { "\n…" } }
                    @if !full.is_whole { p.more { (whole(key, view, name, &value)) } }
                }
            }
        }
    }
}

fn whole(key: &SessionKey, view: &PageView, name: &str, value: &Value) -> Markup {
    let view = PageView { at: view.at, key: Some(name.to_owned()), ..PageView::default() };
    let bytes = if let Value::String(text) = value { Some(text.len() as u64) } else { None };
    html! {
        a href=(address::part(key, "value", &view)) {
            "Whole value" @if let Some(bytes) = bytes { " (" (size(bytes)) ")" }
        }
    }
}
