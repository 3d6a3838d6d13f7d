//! A whole value or event, as text.

use scratchbook::{Error, GetSessionConfig, Result};
use serde_json::Value;

use super::super::address::View;
use super::super::masks::Masks;
use super::super::page::{Query, plain};
use super::super::{Answer, SessionScope};
use super::read::Reader;
use crate::heavy::off_worker;

/// The value of a key at an event, or now.
pub(super) async fn value(scope: SessionScope, Query(view): Query<View>) -> Answer {
    let reader = Reader::new(&scope);
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
    Ok(plain(off_worker(move || pretty(&value)).await?))
}

/// An event in the JSON of ADK.
pub(super) async fn event(scope: SessionScope, Query(view): Query<View>) -> Answer {
    let reader = Reader::new(&scope);
    let head = reader.head().await?;
    let event = reader.event(view.at.unwrap_or_default()).await?;
    let event = event.ok_or_else(|| Error::not_found("there is no such event in the session"))?;
    let masks = Masks::of(&head);
    Ok(plain(off_worker(move || whole(&event, &masks)).await??))
}

fn whole(event: &scratchbook::Event, masks: &Masks) -> Result<String> {
    let value = serde_json::to_value(masks.of_event(event)?);
    Ok(pretty(&value.map_err(|e| Error::internal("an event cannot be written as JSON").with_source(e))?))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
