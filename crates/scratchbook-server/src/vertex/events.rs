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
    let (events, next) = list.read().await?;
    let shown = |event: &Arc<Event>| event_to_json(event, target.names.event(target.key.session_id(), &event.id));
    let events = events.iter().map(shown).collect::<Result<_>>()?;
    Ok(Json(answer("sessionEvents", events, next.map(|seq| order.token(seq)))))
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
                Err(Error::invalid(format!(
                    "orderBy is {text:?}; events are in the order of timestamp, or timestamp desc"
                )))
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

    /// Whether an event comes after the one with a number.
    fn is_after(self, seq: u64, event: &Event) -> bool {
        event.seq.is_some_and(|other| match self {
            Self::Oldest => other > seq,
            Self::Newest => other < seq,
        })
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
    /// The events of a page, and the number after which the next one begins, where there is one.
    async fn read(&self) -> Result<(Vec<Arc<Event>>, Option<u64>)> {
        // What is wanted mostly stands together, so that the first look is for a page alone, and for one more: Google's
        // clients for Python take an empty page for a fault.
        let (mut wanted, mut after, mut limit) = (Vec::new(), self.after, self.size + 1);
        for look in 0..MOST_LOOKS {
            let events = self.look(after, limit).await?;
            let is_end = events.len() < limit;
            after = events.last().and_then(|event| event.seq).unwrap_or(after);
            wanted.extend(events.into_iter().filter(|event| self.times.has(event)));
            if is_end || wanted.len() > self.size {
                return Ok(self.cut(wanted));
            }
            if look == 0
                && let Some(events) = self.read_recent().await?
            {
                return Ok(self.cut(events));
            }
            limit = LOOK;
        }
        Ok((wanted, Some(after)))
    }

    /// All events that are wanted, where they are few and begin at some time; stores find these from their end.
    async fn read_recent(&self) -> Result<Option<Vec<Arc<Event>>>> {
        let Some(begin) = self.times.begin() else { return Ok(None) };
        let config = GetSessionConfig::default().without_state();
        let config = config.with_after_timestamp(begin).with_num_recent_events(LOOK);
        let session = found(self.served, self.key, &config).await?;
        if session.events().len() == LOOK {
            return Ok(None);
        }
        let is_wanted = |event: &&Arc<Event>| self.times.has(event) && self.order.is_after(self.after, event);
        let mut events: Vec<_> = session.events().iter().filter(is_wanted).cloned().collect();
        if self.order == Order::Newest {
            events.reverse();
        }
        Ok(Some(events))
    }

    /// Events after one with a number, in the order of the list.
    async fn look(&self, after: u64, limit: usize) -> Result<Vec<Arc<Event>>> {
        let config = GetSessionConfig::default().without_state();
        let config = match self.order {
            Order::Oldest => config.with_events_after(after, limit),
            Order::Newest => config.with_events_before(after, limit),
        };
        let session = found(self.served, self.key, &config).await?;
        let events = session.events().iter().cloned();
        Ok(if self.order == Order::Newest { events.rev().collect() } else { events.collect() })
    }

    fn cut(&self, mut events: Vec<Arc<Event>>) -> (Vec<Arc<Event>>, Option<u64>) {
        let has_more = events.len() > self.size;
        events.truncate(self.size);
        let next = events.last().and_then(|event| event.seq).filter(|_| has_more);
        (events, next)
    }
}
