//! Pages of events, with a limit of events and of bytes.

use std::sync::Arc;

use scratchbook::json::bytes_of;
use scratchbook::session::micros_of_seconds;
use scratchbook::{Error, Event, GetSessionConfig, Result, SessionKey};

use super::sessions::found;
use super::times::TimeRange;
use crate::app_state::AppState;

/// How many events the first read takes.
const FIRST_LOOK: usize = 16;
/// How many events a read takes at most.
const LOOK: usize = 1000;
/// If a read returns more bytes than this, the next read takes fewer events.
const LOOK_BYTES: u64 = 1 << 20;
/// How many reads of the store one page may take. If nothing was found by then, the page is empty and another page
/// follows.
const MOST_LOOKS: usize = 1000;
/// How many events one page may read. If nothing was found by then, the page is empty as well.
const MOST_EVENTS: usize = 100_000;
/// How many of the last events are read to find the events after a time: in the first try, and in the second.
const RECENT: [usize; 2] = [128, LOOK];
/// The maximum size of the events in a page, in bytes. A single event may be larger.
const PAGE_BYTES: u64 = 4 << 20;

/// The order of events: which events come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventOrder {
    Oldest,
    Newest,
}

impl EventOrder {
    pub(super) fn new(text: Option<&str>) -> Result<Self> {
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

    /// Returns a number that comes before the number of the first event, in this order.
    pub(super) fn begin(self) -> u64 {
        match self {
            Self::Oldest => 0,
            Self::Newest => u64::MAX,
        }
    }

    /// Returns whether an event comes after the event with a number, in this order.
    fn is_after(self, seq: u64, event: &Event) -> bool {
        event.seq.is_some_and(|other| match self {
            Self::Oldest => other > seq,
            Self::Newest => other < seq,
        })
    }
}

/// The search for the events of a page.
pub(super) struct EventList<'a> {
    pub(super) app_state: &'a AppState,
    pub(super) key: &'a SessionKey,
    pub(super) order: EventOrder,
    pub(super) times: TimeRange,
    /// The number of the event after which the page begins.
    pub(super) after: u64,
    /// When the session was created from which earlier pages came, in microseconds since 1970.
    pub(super) created: Option<i64>,
    pub(super) size: usize,
}

/// A page while it is filled.
#[derive(Default)]
struct PartialPage {
    events: Vec<Arc<Event>>,
    bytes: u64,
}

/// The result of one read.
struct EventRead {
    events: Vec<Arc<Event>>,
    /// When the session was created.
    created: Option<i64>,
    /// Whether no events follow. A read may return fewer events than requested although others follow.
    is_last: bool,
}

/// The events of a page, and the event number after which the next page begins, if there is one.
type EventsAndNext = (Vec<Arc<Event>>, Option<u64>);

impl EventList<'_> {
    /// Reads the page. It is empty only if there are no events or if [`MOST_LOOKS`] or [`MOST_EVENTS`] was reached, since
    /// Google's clients for Python fail on an empty page.
    pub(super) async fn read(&mut self) -> Result<EventsAndNext> {
        let (mut page, mut after, mut seen) = (PartialPage::default(), self.after, 0);
        let mut limit = FIRST_LOOK.min(self.size + 1);
        for look in 0..MOST_LOOKS {
            let EventRead { events, created, is_last } = self.look(after, limit).await?;
            // Another session may have been created under the same id. The token is for the earlier one.
            if self.created.is_some_and(|earlier| Some(earlier) != created) {
                return Err(Error::invalid(
                    "the session was deleted and created again after this pageToken was given; start without one",
                ));
            }
            self.created = created;
            let (count, before, mut bytes) = (events.len(), page.events.len(), 0);
            for event in events {
                let length = bytes_of(event.as_ref());
                bytes += length;
                if !self.times.has(&event) {
                    after = event.seq.unwrap_or(after);
                } else if self.has_room(&page, length) {
                    after = event.seq.unwrap_or(after);
                    page.push(event, length);
                } else {
                    return Ok(page.with_more());
                }
            }
            if is_last {
                return Ok((page.events, None));
            }
            seen += count;
            if seen >= MOST_EVENTS {
                break;
            }
            let are_all_wanted = page.events.len() - before == count;
            if look == 0
                && !are_all_wanted
                && let Some(events) = self.recent().await?
            {
                return self.first_of(events);
            }
            limit = if bytes > LOOK_BYTES { (limit / 4).max(1) } else { (limit * 4).min(LOOK) };
            if are_all_wanted {
                // The limit includes one more event, to see whether another page follows.
                limit = limit.min(self.size + 1 - page.events.len());
            }
        }
        Ok((page.events, Some(after)))
    }

    fn has_room(&self, page: &PartialPage, length: u64) -> bool {
        page.events.len() < self.size && (page.events.is_empty() || page.bytes + length <= PAGE_BYTES)
    }

    /// Returns the page, given all matching events.
    fn first_of(&self, events: Vec<Arc<Event>>) -> Result<EventsAndNext> {
        let mut page = PartialPage::default();
        for event in events {
            let length = bytes_of(event.as_ref());
            if !self.has_room(&page, length) {
                return Ok(page.with_more());
            }
            page.push(event, length);
        }
        Ok((page.events, None))
    }

    /// Returns all matching events, if they are few and the filter has a first time. Stores find such events from the
    /// end of the session.
    async fn recent(&self) -> Result<Option<Vec<Arc<Event>>>> {
        let Some(begin) = self.times.begin() else { return Ok(None) };
        for count in RECENT {
            let config = GetSessionConfig::default().without_state().with_after_timestamp(begin);
            let bounded = config.clone().with_num_recent_events(count).with_page_bytes(LOOK_BYTES);
            let session = found(self.app_state, self.key, &bounded).await?;
            let len = session.events().len();
            if len < count {
                // The read may have ended at its limit of bytes. Then there are earlier events.
                let one_more = found(self.app_state, self.key, &config.with_num_recent_events(len + 1)).await?;
                if one_more.events().len() > len {
                    break;
                }
                let is_wanted = |event: &&Arc<Event>| self.times.has(event) && self.order.is_after(self.after, event);
                let mut events: Vec<_> = session.events().iter().filter(is_wanted).cloned().collect();
                if self.order == EventOrder::Newest {
                    events.reverse();
                }
                return Ok(Some(events));
            }
        }
        Ok(None)
    }

    /// Reads events after the event with a number, in the order of the list.
    async fn look(&self, after: u64, limit: usize) -> Result<EventRead> {
        let config = GetSessionConfig::default().without_state().with_page_bytes(self.app_state.page_bytes());
        let config = match self.order {
            EventOrder::Oldest => config.with_events_after(after, limit),
            EventOrder::Newest => config.with_events_before(after, limit),
        };
        let session = found(self.app_state, self.key, &config).await?;
        let mut events: Vec<_> = session.events().iter().cloned().collect();
        if self.order == EventOrder::Newest {
            events.reverse();
        }
        let is_last = match (events.last().and_then(|event| event.seq), self.order, session.known_seq()) {
            (None, ..) => true,
            (Some(last), EventOrder::Oldest, Some(seq)) => last >= seq,
            (Some(last), EventOrder::Newest, _) => last <= 1,
            (_, EventOrder::Oldest, None) => events.len() < limit,
        };
        Ok(EventRead { events, created: session.create_time().map(micros_of_seconds), is_last })
    }
}

impl PartialPage {
    fn push(&mut self, event: Arc<Event>, length: u64) {
        self.bytes += length;
        self.events.push(event);
    }

    /// Returns the page together with the number of its last event, after which another page follows.
    fn with_more(self) -> EventsAndNext {
        let last = self.events.last().and_then(|event| event.seq);
        (self.events, last)
    }
}
