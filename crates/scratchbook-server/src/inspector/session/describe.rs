//! The title and the labels of a session, by which people find it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use ring::digest::{SHA256, digest};
use scratchbook::session::SessionUpdate;
use scratchbook::{ErrorKind, Session};

use super::super::address::{self, PageView};
use super::super::form::{Form, see_other};
use super::super::page::{InspectorPage, sentence};
use super::super::value::visible;
use super::super::{PageAnswer, SessionScope};
use super::frame;
use super::read::SessionReader;
use crate::access::Right;

/// Returns the form with the stored title and labels.
pub(super) async fn ask(scope: SessionScope) -> PageAnswer {
    scope.caller.check(Right::Write)?;
    let head = SessionReader::new(&scope).head().await?;
    let (title, labels) = (head.title().unwrap_or_default().to_owned(), lines(head.labels()));
    Ok(answer(&scope, &head, StatusCode::OK, &html! {}, &title, &labels))
}

/// Stores the title and labels from the form, unless somebody else has changed them since the form was shown.
pub(super) async fn update(scope: SessionScope, form: Form) -> PageAnswer {
    scope.caller.check(Right::Read)?;
    let head = SessionReader::new(&scope).head().await?;
    let (title, text) = (form.field("title"), form.field("labels"));
    if print(&head) != form.field("seen") {
        let note = html! {
            div role="alert" {
                p { "Somebody else has changed the title or the labels. Nothing was overwritten. This is stored now:" }
                pre { (visible(head.title().unwrap_or("no title"))) "\n" (visible(&lines(head.labels()))) }
                p { "To store what is in the form instead, send it again." }
            }
        };
        return Ok(answer(&scope, &head, StatusCode::CONFLICT, &note, &title, &text));
    }
    let mut update = SessionUpdate::default();
    update.title = Some(title.clone());
    let left_out = head.labels().keys().map(|name| (name.clone(), None));
    update.labels = left_out.chain(labels(&text).into_iter().map(|(name, value)| (name, Some(value)))).collect();
    match scope.app_state.store.sessions.update_session(&scope.key, update).await {
        Ok(_) => Ok(see_other(&address::session(&scope.key, &PageView::default()))),
        Err(error) if error.kind() == ErrorKind::InvalidArgument => {
            let note = html! { p.failure role="alert" { (visible(&sentence(error.public_message()))) } };
            Ok(answer(&scope, &head, StatusCode::BAD_REQUEST, &note, &title, &text))
        }
        Err(error) => Err(error.into()),
    }
}

fn answer(
    scope: &SessionScope,
    head: &Session,
    status: StatusCode,
    note: &Markup,
    title: &str,
    labels: &str,
) -> Response {
    let body = html! {
        section.ask {
            h1 { "Title and labels" }
            (note)
            form method="post" action=(address::part(head.key(), "details", &PageView::default())) {
                input type="hidden" name="seen" value=(print(head));
                label { "Title" input type="text" name="title" value=(title); }
                label { "Labels, a line each: NAME or NAME=VALUE" textarea name="labels" rows="5" spellcheck="false" { (labels) } }
                div.buttons {
                    button { "Save" }
                    a href=(address::session(head.key(), &PageView::default())) { "Back" }
                }
            }
        }
    };
    let page = InspectorPage {
        title: "Title and labels",
        above: frame::above(head),
        caller: Some(&scope.caller),
        scripts: &[],
        body,
    };
    page.with_status(status)
}

/// Writes labels as lines.
fn lines(labels: &BTreeMap<String, String>) -> String {
    labels.iter().fold(String::new(), |mut text, (name, value)| {
        // Writing to a string cannot fail.
        let _ = if value.is_empty() { writeln!(text, "{name}") } else { writeln!(text, "{name}={value}") };
        text
    })
}

/// Reads labels from lines.
fn labels(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let label = |line: &str| {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        (name.trim().to_owned(), value.trim().to_owned())
    };
    lines.map(label).collect()
}

/// Returns a digest of the title and the labels that the person has seen. The form sends this digest back.
fn print(head: &Session) -> String {
    let text = format!("{}\n{}", head.title().unwrap_or_default(), lines(head.labels()));
    digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_lines_and_lines_are_labels() {
        let found = labels(" team = red \n\nopen\r\na=b=c\n");
        let pairs = [("a", "b=c"), ("open", ""), ("team", "red")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(found, BTreeMap::from(pairs));
        assert_eq!(labels(&lines(&found)), found);
    }
}
