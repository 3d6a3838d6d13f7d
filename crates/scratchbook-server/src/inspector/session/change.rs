//! Changes of a key, each stored as an event of the person who makes it. Optimistic locking prevents a person from
//! overwriting a value that they have not seen.

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use ring::digest::{SHA256, digest};
use scratchbook::error::KeyWriter;
use scratchbook::session::AppendOptions;
use scratchbook::state::{Operation, StateDelta};
use scratchbook::{Error, ErrorKind, Event, GetSessionConfig, Result, Scope, Session};
use serde_json::{Value, json};

use super::super::address::{self, PageView};
use super::super::form::{Form, see_other};
use super::super::masks::Masks;
use super::super::page::{InspectorPage, sentence};
use super::super::value::{ago, as_escapes, block, pretty, visible};
use super::super::{PageAnswer, SessionScope};
use super::frame;
use super::read::SessionReader;
use crate::access::{Caller, Right};

/// The largest value that is edited in its field, in bytes.
const EDITED: usize = 64 << 10;

/// The digest that a form has for an absent key.
const ABSENT: &str = "absent";

/// The author of changes if the server needs no login.
const ANYONE: &str = "inspector";

/// Carries out the change that a form asks for.
pub(super) async fn change(scope: SessionScope, form: Form) -> PageAnswer {
    scope.caller.check(Right::Read)?;
    let reader = SessionReader::new(&scope);
    let head = reader.head().await?;
    let (key, text) = (form.field("key"), form.field("value"));
    if !may_change(&head, &scope.caller, &key) {
        return Err(Error::new(ErrorKind::PermissionDenied, format!("'{key}' cannot be changed here")).into());
    }
    let found = value(&reader, &key).await?;
    check_has_no_secrets(&head, &key, found.as_ref())?;
    let operation = match operation(&form.field("operation"), &text) {
        Ok(operation) => operation,
        Err(why) => return Ok(again(&scope, &head, &form, found.as_ref(), &why)),
    };
    if print(found.as_ref()) != form.field("seen") {
        return conflict(&scope, &reader, &head, &key, &text, found.as_ref()).await;
    }
    let guard = found.clone().map_or(Operation::ExpectAbsent, Operation::Expect);
    let mut delta = StateDelta::new();
    delta.apply(key.as_str(), guard)?;
    delta.apply(key.as_str(), operation)?;
    let author = scope.caller.name().map_or(ANYONE, |name| name);
    let event = Event::new(author).with_state_delta(delta);
    match reader.sessions.append(reader.key, event, AppendOptions::default()).await {
        Ok(_) => Ok(see_other(&address::session(reader.key, &PageView::default().with_key(&key)))),
        Err(error) if error.kind() == ErrorKind::Conflict => {
            let found = value(&reader, &key).await?;
            check_has_no_secrets(&head, &key, found.as_ref())?;
            conflict(&scope, &reader, &head, &key, &text, found.as_ref()).await
        }
        Err(error) if matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::FailedPrecondition) => {
            Ok(again(&scope, &head, &form, found.as_ref(), error.public_message()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the operation on the key. The error is a message for the person.
fn operation(name: &str, text: &str) -> Result<Operation, String> {
    let value = || {
        scratchbook::json::from_str::<Value>(text).map_err(|error| {
            let example = example(text);
            format!("This is not JSON ({error}). A value is written as JSON, with text in quotes, as in {example}")
        })
    };
    match name {
        "remove" => Ok(Operation::Remove),
        "increment" => match value()? {
            Value::Number(by) => Ok(Operation::Increment(by)),
            _ => Err("A key is incremented by a number".to_owned()),
        },
        "append" => Ok(Operation::Append(value()?)),
        _ => Ok(Operation::Set(value()?)),
    }
}

/// Returns a short input as a JSON string, because the person may have meant a string; for a longer input, returns an
/// example.
fn example(text: &str) -> Value {
    let is_plain = text.len() <= 40 && text.chars().all(|c| c.is_alphanumeric() || " _-.".contains(c));
    json!(if is_plain && !text.trim().is_empty() { text.trim() } else { "EUR" })
}

/// Returns whether a caller may change a key on these pages. Secret values are not shown, so they cannot be edited
/// either.
pub(super) fn may_change(head: &Session, caller: &Caller, key: &str) -> bool {
    let has_right = match Scope::split(key).0 {
        Scope::Temp => false,
        Scope::App => caller.may(Right::App),
        _ => true,
    };
    has_right && caller.may(Right::Write) && caller.may(Right::Read) && !Masks::of(head).hides(key)
}

/// Returns the value of a key as it is now.
///
/// # Errors
///
/// The errors of the store.
pub(super) async fn value(reader: &SessionReader<'_>, key: &str) -> Result<Option<Value>> {
    let config = GetSessionConfig::state_only().with_state_keys([key]);
    let session = reader.sessions.get_session(reader.key, &config).await?;
    Ok(session.and_then(|session| session.state().get(key).cloned()))
}

/// Returns whether a value has parts that are shown to nobody.
fn has_secrets(head: &Session, key: &str, value: Option<&Value>) -> bool {
    value.is_some_and(|value| *Masks::of(head).of_key(key, value) != *value)
}

/// Refuses to change a value with secrets, because the form would contain a digest of the value.
fn check_has_no_secrets(head: &Session, key: &str, value: Option<&Value>) -> Result<(), Error> {
    if !has_secrets(head, key, value) {
        return Ok(());
    }
    let message = format!("'{key}' has secrets, which are not shown; it cannot be changed here");
    Err(Error::new(ErrorKind::PermissionDenied, message))
}

/// Returns a digest of the value that the person has seen; the form sends it back.
fn print(value: Option<&Value>) -> String {
    let Some(value) = value else { return ABSENT.to_owned() };
    let text = serde_json::to_vec(value).unwrap_or_default();
    digest(&SHA256, &text).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the form that changes a key, with its value as it is now.
pub(super) fn form(head: &Session, key: &str, value: Option<&Value>) -> Markup {
    if has_secrets(head, key, value) {
        return html! { p.soft { "This value has secrets, which are not shown; it cannot be changed here." } };
    }
    let text = value.map_or_else(|| Some(String::new()), |value| pretty(value, EDITED)).map(|text| as_escapes(&text));
    let Some(text) = text.filter(|text| text.len() <= EDITED) else {
        return html! { p.soft { "This value is too large to be edited here." } };
    };
    html! {
        details.edit {
            summary { "Change the value" }
            (fields(head, key, &text, &print(value), value))
        }
    }
}

fn fields(head: &Session, key: &str, text: &str, seen: &str, value: Option<&Value>) -> Markup {
    html! {
        form.change method="post" action=(address::part(head.key(), "change", &PageView::default())) {
            input type="hidden" name="key" value=(key);
            input type="hidden" name="seen" value=(seen);
            label { "Value, as JSON" textarea name="value" rows="5" spellcheck="false" required { (text) } }
            div.buttons {
                button name="operation" value="set" { "Set" }
                @if value.is_none_or(Value::is_number) { button name="operation" value="increment" { "Increment by" } }
                @if value.is_none_or(Value::is_array) { button name="operation" value="append" { "Append" } }
                @if seen != ABSENT { button.danger name="operation" value="remove" formnovalidate { "Remove" } }
            }
        }
    }
}

/// Returns the form again, with the reason why the change was refused.
fn again(scope: &SessionScope, head: &Session, form: &Form, found: Option<&Value>, why: &str) -> Response {
    let [key, text, seen] = &["key", "value", "seen"].map(|name| form.field(name));
    let body = html! {
        section.ask {
            h1 { "Change " code { bdi { (visible(key)) } } }
            p.failure role="alert" { (visible(&sentence(why))) }
            (fields(head, key, text, seen, found))
            p { a href=(address::session(head.key(), &PageView::default().with_key(key))) { "Back" } }
        }
    };
    let page =
        InspectorPage { title: "Change", above: frame::above(head), caller: Some(&scope.caller), scripts: &[], body };
    page.with_status(StatusCode::BAD_REQUEST)
}

/// Returns a page with the stored value and its writer, and with the value that the person has sent.
async fn conflict(
    scope: &SessionScope,
    reader: &SessionReader<'_>,
    head: &Session,
    key: &str,
    text: &str,
    found: Option<&Value>,
) -> PageAnswer {
    let writer = writer(reader, key).await?;
    let masks = Masks::of(head);
    let body = html! {
        section.ask {
            h1 { "Somebody else has changed " code { bdi { (visible(key)) } } }
            p { "Nothing was overwritten. This is stored now"
                @if let Some(writer) = &writer { ", by " b { bdi { (visible(&writer.author)) } } " " (ago(writer.time, reader.now)) }
                ":" }
            pre { @match found { Some(value) => (block(&masks.of_key(key, value), EDITED).text), None => "(removed)" } }
            p { "This is your value. Send it again to replace the one above." }
            (fields(head, key, text, &print(found), found))
            p { a href=(address::session(head.key(), &PageView::default().with_key(key))) { "Keep the stored value" } }
        }
    };
    let page =
        InspectorPage { title: "Conflict", above: frame::above(head), caller: Some(&scope.caller), scripts: &[], body };
    Ok(page.with_status(StatusCode::CONFLICT))
}

async fn writer(reader: &SessionReader<'_>, key: &str) -> Result<Option<KeyWriter>> {
    let writer = match reader.sessions.blame(reader.key).await {
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        writers => writers?.remove(key),
    };
    let writer = writer.map(|writer| reader.caller.known_writer(writer, reader.key.app_name()));
    Ok(writer.filter(|writer| !writer.author.is_empty()))
}
