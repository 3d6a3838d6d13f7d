//! Events: appended, and listed page by page.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use scratchbook::vertex::{event_from_json, event_to_json};
use scratchbook::{AppendOptions, Error, Event, GetSessionConfig, Result, SessionKey};
use serde_json::{Value, json};

use super::GoogleError;
use super::list::answer;
use super::params::{Body, Params};
use super::place::EngineSession;
use super::sessions::{check_there, found};
use super::times::Times;
use crate::served::Served;

/// How many events are looked at in one go where some are wanted.
const LOOK: usize = 1000;
/// How often a store is asked for one page. A page that is found nothing for until then is empty and followed by another.
const MOST_LOOKS: usize = 100;

/// Appends an event. What has an id may be sent again; pieces of a stream are taken and not stored.
pub(super) async fn append(
    State(served): State<Arc<Served>>,
    target: EngineSession,
    RawQuery(query): RawQuery,
    Body(body): Body,
) -> Result<Json<Value>, GoogleError> {
    Params::new(query.as_deref(), &[])?;
    let event = event_from_json(body)?;
    target.caller.check_delta(&event.actions.state_delta)?;
    if event.is_partial() {
        check_there(&served, &target.key).await?;
    } else {
        served.store.sessions.append(&target.key, event, AppendOptions::default()).await?;
    }
    Ok(Json(json!({})))
}

/// A page of events, in the order in which they were appended or the other way round.
pub(super) async fn list(
    State(served): State<Arc<Served>>,
    target: EngineSession,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, GoogleError> {
    let params = Params::new(query.as_deref(), &["pageSize", "pageToken", "filter", "orderBy"])?;
    let order = Order::new(params.text("orderBy"))?;
    let times = Times::new(params.text("filter"))?;
    let after = params.text("pageToken").map_or(Ok(order.begin()), |token| order.read_token(token))?;
    let list = List { served: &served, key: &target.key, order, times, after, size: params.page_size()? };
    let mut events = list.read().await?;
    let is_last = events.len() <= list.size;
    events.truncate(list.size);
    let next = events.last().and_then(|event| event.seq).filter(|_| !is_last).map(|seq| order.token(seq));
    let shown = |event: &Arc<Event>| {
        event_to_json(event, target.names.event(target.key.session_id(), &event.id))
    };
    let events = events.iter().map(shown).collect::<Result<_>>()?;
    Ok(Json(answer("sessionEvents", events, next)))
}

/// Which events come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Oldest,
    Newest,
}

impl Order {
    fn new(text: Option<&str>) -> Result<Self> {
        let mut words = text.unwrap_or_default().split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (None | Some("timestamp"), None | Some("asc"), None) => Ok(Self::Oldest),
            (Some("timestamp"), Some("desc"), None) => Ok(Self::Newest),
            _ => {
                let text = text.unwrap_or_default();
                Err(Error::invalid(format!("orderBy is {text:?}; events are in the order of timestamp, or timestamp desc")))
            }
        }
    }

    /// A number before the first event.
    fn begin(self) -> u64 {
        match self {
            Self::Oldest => 0,
            Self::Newest => u64::MAX,
        }
    }

    /// Asks for what comes after the event with this number.
    fn token(self, seq: u64) -> String {
        URL_SAFE_NO_PAD.encode(format!("{self:?} {seq}"))
    }

    fn read_token(self, token: &str) -> Result<u64> {
        let text = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let seq = text.as_deref().and_then(|text| text.strip_prefix(&format!("{self:?} ")));
        seq.and_then(|seq| seq.parse().ok()).ok_or_else(|| {
            Error::invalid("the pageToken is none that this list has given in this order; start without one")
        })
    }
}

/// What is looked for.
struct List<'a> {
    served: &'a Served,
    key: &'a SessionKey,
    order: Order,
    times: Times,
    /// The number of the event that the page comes after.
    after: u64,
    size: usize,
}

impl List<'_> {
    /// The events of a page, and one more where there is one.
    async fn read(&self) -> Result<Vec<Arc<Event>>> {
        if let Some(events) = self.read_recent().await? {
            return Ok(events);
        }
        let (mut wanted, mut after) = (Vec::new(), self.after);
        let is_all = self.times == Times::new(None)?;
        for _ in 0..MOST_LOOKS {
            let limit = if is_all { self.size + 1 } else { LOOK };
            let events = self.look(after, limit).await?;
            let Some(last) = events.last().and_then(|event| event.seq) else { break };
            let is_end = events.len() < limit;
            wanted.extend(events.into_iter().filter(|event| self.times.has(event)));
            if is_end || wanted.len() > self.size {
                break;
            }
            after = last;
        }
        Ok(wanted)
    }
}
