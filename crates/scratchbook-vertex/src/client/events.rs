//! Reading events, page by page.

use std::collections::{HashSet, VecDeque};

use google_cloud_aiplatform_v1::client::SessionService;
use google_cloud_aiplatform_v1::model::SessionEvent;

use super::failure::{CallKind, failure, is_not_found};
use super::message::{exact_seconds, read_event};
use super::retry::Patience;
use crate::timestamp_from_seconds;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;
use scratchbook_core::session::{EventCursor, GetSessionConfig, micros_of_seconds, seconds_of_micros};

/// The page size. Events can have several megabytes each.
const PAGE: usize = 100;

/// The events of a session to read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum EventSelection {
    /// The oldest events: skips some, then reads at most `most`.
    Oldest { skip: usize, most: usize },
    /// The last `last` of the oldest `of` events.
    OldestThenLast { of: usize, last: usize },
    /// The newest events, at most `most`.
    Newest { most: usize },
}

/// The events that were read.
#[derive(Debug, Default)]
pub(super) struct FetchedEvents {
    /// The events as they were sent. Errors in the events are reported only to the session's owner.
    events: VecDeque<SessionEvent>,
    /// The number of the first event, if it is known.
    first: Option<u64>,
    /// The number of the session's last event, if it is known.
    pub(super) last: Option<u64>,
}

impl FetchedEvents {
    /// Returns the events, each with its number if it is known.
    pub(super) fn events(self) -> Result<Vec<Event>> {
        let numbered = |(sent, place): (SessionEvent, u64)| {
            let mut event = read_event(sent)?;
            event.seq = self.first.map(|first| first + place);
            Ok(event)
        };
        self.events.into_iter().zip(0..).map(numbered).collect()
    }
}

impl EventSelection {
    /// Determines the events to read; `None` if no events are wanted.
    pub(super) fn new(config: &GetSessionConfig) -> Option<Self> {
        let number = |seq: u64| usize::try_from(seq).unwrap_or(usize::MAX);
        match (config.cursor, config.num_recent_events) {
            (Some(EventCursor::After { seq, limit }), _) => Some(Self::Oldest { skip: number(seq), most: limit }),
            // A page is found by its index in the list, because the API has no event numbers.
            (Some(EventCursor::Before { seq, limit }), _) => {
                Some(Self::OldestThenLast { of: number(seq).saturating_sub(1), last: limit })
            }
            (None, Some(0)) => None,
            (None, Some(most)) => Some(Self::Newest { most }),
            (None, None) => Some(Self::Oldest { skip: 0, most: usize::MAX }),
        }
    }

    /// Adds an event if it is wanted. `number` is its position among the events that were seen, from 1.
    fn take(self, event: SessionEvent, number: usize, events: &mut VecDeque<SessionEvent>) {
        match self {
            Self::Oldest { skip, most } if number > skip && events.len() < most => events.push_back(event),
            Self::OldestThenLast { of, last } if number <= of => {
                events.push_back(event);
                if events.len() > last {
                    events.pop_front();
                }
            }
            Self::Newest { most } if events.len() < most => events.push_front(event),
            _ => {}
        }
    }
}

/// Reads events of a session, given by its full name. Returns `None` if the session does not exist.
///
/// A read by number also returns the number of the last event. Such a read needs the whole list, because the API has no
/// event numbers. A read of the newest events needs only these events, from the end.
pub(super) async fn read(
    client: &SessionService,
    patience: Patience,
    session: &str,
    wanted: EventSelection,
    since: Option<f64>,
) -> Result<Option<FetchedEvents>> {
    // The list's times are truncated to the microsecond, while the bound is exact.
    let from = since.map(|seconds| seconds_of_micros((micros_of_seconds(seconds) - 1).max(0)));
    let filter = from.map(|from| format!("timestamp>=\"{}\"", timestamp_from_seconds(from))).unwrap_or_default();
    let (order, most) = match wanted {
        EventSelection::Newest { most } => ("timestamp desc", most),
        _ => ("", usize::MAX),
    };
    let (mut events, mut looked_at, mut known) = (VecDeque::new(), 0_usize, DistinctEvents::default());
    let (mut token, mut tokens) = (String::new(), HashSet::new());
    let is_whole = loop {
        let size = most.saturating_sub(events.len()).clamp(1, PAGE);
        let page = client.list_events().set_parent(session).set_filter(&filter).set_order_by(order);
        let page = page.set_page_size(i32::try_from(size).unwrap_or(i32::MAX)).set_page_token(&token);
        let page = match patience.with(page).send().await {
            Ok(page) => page,
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => return Err(failure(&format!("list the events of {session}"), CallKind::Read, error)),
        };
        let is_wanted =
            |event: &SessionEvent| since.is_none_or(|since| exact_seconds(event).is_none_or(|time| time >= since));
        for event in page.session_events.into_iter().filter(is_wanted) {
            if known.is_new(&event) {
                looked_at += 1;
                wanted.take(event, looked_at, &mut events);
            }
        }
        match page.next_page_token {
            next if next.is_empty() => break looked_at <= most,
            _ if looked_at >= most => break false,
            next if !tokens.insert(next.clone()) => return Err(endless(session)),
            next => token = next,
        }
    };
    // If there may be earlier events, their numbers are unknown.
    let is_numbered = since.is_none() && is_whole;
    let before = match wanted {
        EventSelection::Oldest { skip, .. } => skip.min(looked_at),
        EventSelection::OldestThenLast { of, .. } => of.min(looked_at) - events.len(),
        EventSelection::Newest { .. } => 0,
    };
    Ok(Some(FetchedEvents {
        events,
        first: is_numbered.then_some(before as u64 + 1),
        last: is_numbered.then_some(looked_at as u64),
    }))
}

/// The events that were seen, by id and time.
///
/// A busy server may report a failure although it has stored the event. If the client then sends the event again, the
/// list has it twice. The two count as one event.
#[derive(Debug, Default)]
struct DistinctEvents(HashSet<(String, i64, i32)>);

impl DistinctEvents {
    fn is_new(&mut self, event: &SessionEvent) -> bool {
        let id = event.raw_event.as_ref().and_then(|raw| raw.get("id")?.as_str()).filter(|id| !id.is_empty());
        match id.zip(event.timestamp) {
            Some((id, time)) => self.0.insert((id.to_owned(), time.seconds(), time.nanos())),
            None => true,
        }
    }
}

/// Returns the error for a list whose pages repeat.
fn endless(of: &str) -> Error {
    Error::corrupted(format!("the list of the events of {of} gives a page token for the second time; it would not end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_what_is_read() {
        let all = GetSessionConfig::default();
        assert_eq!(EventSelection::new(&all), Some(EventSelection::Oldest { skip: 0, most: usize::MAX }));
        assert_eq!(
            EventSelection::new(&all.clone().with_num_recent_events(3)),
            Some(EventSelection::Newest { most: 3 })
        );
        assert_eq!(EventSelection::new(&GetSessionConfig::state_only()), None);
        let after = all.clone().with_events_after(7, 2);
        assert_eq!(EventSelection::new(&after), Some(EventSelection::Oldest { skip: 7, most: 2 }));
        let before = all.clone().with_events_before(7, 2);
        assert_eq!(EventSelection::new(&before), Some(EventSelection::OldestThenLast { of: 6, last: 2 }));
        // No event is wanted, only the number of the last event.
        for nothing in [all.clone().with_events_before(1, 2), all.clone().with_events_before(0, 2)] {
            assert_eq!(EventSelection::new(&nothing), Some(EventSelection::OldestThenLast { of: 0, last: 2 }));
        }
    }
}
