//! Talks to the agent of the app: sends messages, answers its questions, and stops its runs.

use async_stream::stream;
use axum::body::Bytes;
use futures_util::Stream;
use maud::{Markup, html};
use scratchbook::agent::{RunConfig, ToolConfirmation};
use scratchbook::content::{Content, Part};
use scratchbook::{Error, Result, RunRequest, Session};
use serde_json::{Value, json};

use super::super::address::{self, PageView};
use super::super::form::{Form, see_other};
use super::super::{PageAnswer, SessionScope};
use super::read::SessionReader;
use crate::access::Right;
use crate::bodies::Held;
use crate::public_error::PublicError;
use crate::runs::{RunFollower, RunOutcome};
use crate::sse;

/// Starts a run with a message or an answer. A script gets the text of the run as a stream; a form gets the page.
pub(super) async fn start(scope: SessionScope, held: Held, form: Form) -> PageAnswer {
    scope.caller.check(Right::Read)?;
    let app_name = scope.key.app_name();
    let app = scope.app_state.apps.get(app_name);
    let app = app.ok_or_else(|| Error::not_found(format!("no agent is hosted as the app '{app_name}'")))?;
    let mut config = RunConfig::default();
    config.streaming = true;
    let mut request = RunRequest::default().with_config(config);
    request.message = Some(message(&form)?);
    let account = scope.caller.account(Some(scope.key.user_id()));
    let (run, reader) = scope.app_state.runs.start(&app.runner, &scope.key, &account, &held, request).await?;
    if form.find("stream").is_some() {
        return Ok(sse::response(&run.invocation_id, pieces(run.invocation_id.clone(), RunFollower::live(reader))));
    }
    Ok(see_other(&address::session(&scope.key, &PageView::default())))
}

/// Ends a run of this server.
pub(super) async fn stop(scope: SessionScope, form: Form) -> PageAnswer {
    scope.caller.check(Right::Read)?;
    if let Some(run) = scope.app_state.runs.find(&scope.key, &form.field("run")) {
        run.cancel();
        run.ended().await;
    }
    Ok(see_other(&address::session(&scope.key, &PageView::default())))
}

/// Returns the message that a form has for the agent: a text, or the answer to a call.
fn message(form: &Form) -> Result<Content> {
    let Some(call) = form.find("call") else {
        let text = form.find("message").ok_or_else(|| Error::invalid("the message is empty; write something"))?;
        return Ok(Content::user(text));
    };
    let name = form.field("name");
    let answer = match form.find("confirmed") {
        Some(confirmed) => json!(ToolConfirmation { confirmed: confirmed == "yes", ..ToolConfirmation::default() }),
        None => {
            let text = form.field("response");
            // An answer that is not JSON is taken as text.
            match scratchbook::json::from_str::<Value>(&text) {
                Ok(value @ Value::Object(_)) => value,
                Ok(value) => json!({"result": value}),
                Err(_) => json!({"result": text}),
            }
        }
    };
    Ok(Content::new("user", vec![Part::function_response(call, name, answer)]))
}

/// Streams the text of a run as it is produced. The page gets whole events from its own stream.
fn pieces(invocation_id: String, mut events: RunFollower) -> impl Stream<Item = Bytes> + Send + 'static {
    stream! {
        yield sse::frame("run", &json!({"run": invocation_id}));
        loop {
            match events.next().await {
                Ok(Some(event)) if event.is_partial() => {
                    let text = event.content.as_ref().map(Content::text).unwrap_or_default();
                    yield sse::frame("piece", &json!({"author": event.author, "text": text}));
                }
                Ok(Some(event)) => yield sse::frame("event", &json!({"seq": event.seq})),
                Ok(None) => {
                    yield sse::frame("end", &end(events.outcome()));
                    return;
                }
                Err(error) => {
                    yield sse::frame("end", &json!({"error": PublicError::of(&error).message}));
                    return;
                }
            }
        }
    }
}

fn end(outcome: Option<&RunOutcome>) -> Value {
    match outcome {
        Some(RunOutcome::Failed(error)) => json!({"error": PublicError::of(error).message}),
        Some(outcome) => json!({"outcome": outcome.as_str()}),
        None => json!({}),
    }
}

/// Returns the runs that can be stopped, and the field for a message if this server hosts an agent that the caller may
/// talk to.
pub(super) fn markup(scope: &SessionScope, head: &Session) -> Markup {
    let key = head.key();
    let runs = scope.app_state.runs.list(key);
    html! {
        @if SessionReader::new(scope).can_talk {
            div #talk {
                @for run in &runs {
                    form.stop id={ "stop-" (run.invocation_id) } method="post" action=(address::part(key, "stop", &PageView::default())) {
                        input type="hidden" name="run" value=(run.invocation_id);
                        span.soft { "A run is under way. " }
                        button { "Stop" }
                    }
                }
                form.say #say method="post" action=(address::part(key, "runs", &PageView::default()))
                    data-stop=(address::part(key, "stop", &PageView::default())) {
                    textarea name="message" rows="2" required aria-label="Message to the agent"
                        placeholder="Message to the agent" {}
                    button { "Send" }
                }
            }
        }
    }
}

/// Returns the form that answers a waiting call.
pub(super) fn question(key: &scratchbook::SessionKey, call: &str, name: &str) -> Markup {
    html! {
        form.question id={ "question-" (call) } method="post" action=(address::part(key, "runs", &PageView::default())) {
            input type="hidden" name="call" value=(call);
            input type="hidden" name="name" value=(name);
            @if name == ToolConfirmation::CALL_NAME {
                button name="confirmed" value="yes" { "Approve" }
                button name="confirmed" value="no" { "Reject" }
            } @else {
                input type="text" name="response" required aria-label="Answer of the tool" placeholder="Answer, as JSON or text";
                button { "Answer" }
            }
        }
    }
}
