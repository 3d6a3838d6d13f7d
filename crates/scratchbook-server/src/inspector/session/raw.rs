//! A whole value or event, as text.

use scratchbook::{Error, ErrorKind, GetSessionConfig, Result};
use serde_json::Value;

use super::super::address::PageView;
use super::super::masks::Masks;
use super::super::page::{PageQuery, plain};
use super::super::value::pretty;
use super::super::{PageAnswer, SessionScope};
use super::read::SessionReader;
use crate::heavy::off_worker;

/// Returns the value of a key at an event, or its current value.
pub(super) async fn value(scope: SessionScope, PageQuery(view): PageQuery<PageView>) -> PageAnswer {
    let reader = SessionReader::new(&scope);
    let key = view.key.clone().unwrap_or_default();
    let head = reader.head().await?;
    let state = match view.at {
        Some(at) => reader.sessions.get_state_at(reader.key, at).await?,
        None => {
            let config = GetSessionConfig::state_only().with_state_keys([&key]);
            reader
                .sessions
                .get_session(reader.key, &config)
                .await?
                .map(|session| session.state().clone())
                .unwrap_or_default()
        }
    };
    let value = state.get(&key).ok_or_else(|| Error::not_found(format!("there is no key '{key}' at this event")))?;
    let value = Masks::of(&head).of_key(&key, value).into_owned();
    let most = scope.app_state.limits.answer_bytes;
    Ok(plain(off_worker(move || text(&value, most)).await??))
}

/// Returns an event in the JSON of ADK.
pub(super) async fn event(scope: SessionScope, PageQuery(view): PageQuery<PageView>) -> PageAnswer {
    let reader = SessionReader::new(&scope);
    let head = reader.head().await?;
    let event = reader.event(view.at.unwrap_or_default()).await?;
    let event = event.ok_or_else(|| Error::not_found("there is no such event in the session"))?;
    let masks = Masks::of(&head);
    let most = scope.app_state.limits.answer_bytes;
    Ok(plain(off_worker(move || whole(&event, &masks, most)).await??))
}

fn whole(event: &scratchbook::Event, masks: &Masks, most: usize) -> Result<String> {
    let value = serde_json::to_value(masks.of_event(event)?);
    text(&value.map_err(|e| Error::internal("an event cannot be written as JSON").with_source(e))?, most)
}

/// Returns JSON on several lines, or on one line if the value is so deeply nested that the lines would be too long.
fn text(value: &Value, most: usize) -> Result<String> {
    let text = pretty(value, most).unwrap_or_else(|| value.to_string());
    if text.len() > most {
        let message = format!("the value has more than the {most} bytes that an answer may have");
        return Err(Error::new(ErrorKind::PayloadTooLarge, message));
    }
    Ok(text)
}
