//! Estimates which requests are heavy, before they are processed.
//!
//! A request does not say how long a session's history is. A read of a whole history counts as heavy until its answer
//! was small once. Any other read counts as light until its answer was large once. So reads of large sessions do not
//! delay reads of small ones.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};

use axum::http::{Method, Uri};

use crate::surface::{self, Surface};

/// A body or an answer of this size is heavy.
pub(super) const HEAVY_BYTES: u64 = 256 << 10;

/// How many paths each of the two sets, the newer and the older paths, remembers.
const REMEMBERED: usize = 32_768;

/// The kind of permit that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestWeight {
    Light,
    HeavyRead,
    HeavyWrite,
}

/// The work and the answer that the route of a request leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedWork {
    /// A page, a value, or a small change.
    SmallAnswer,
    /// A whole history, which may be large.
    LargeAnswer,
    /// Work of this weight, whatever the size of the answer.
    Work(RequestWeight),
}

/// The paths whose answers were unexpectedly small or large for their routes.
#[derive(Debug)]
pub(super) struct Sizes {
    hasher: RandomState,
    /// The newer paths and the older paths. The older ones are dropped once there are enough newer ones.
    unexpected: Mutex<[HashSet<u64>; 2]>,
}

/// A request whose answer will be measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighed {
    pub(super) weight: RequestWeight,
    expected: ExpectedWork,
    path: u64,
}

impl Sizes {
    pub(super) fn new() -> Self {
        Self { hasher: RandomState::new(), unexpected: Mutex::default() }
    }

    /// Weighs a request by its method, the template of its route, its address and the size of its body.
    pub(super) fn weigh(&self, method: &Method, route: &str, uri: &Uri, body_bytes: u64) -> Weighed {
        let expected = match body_bytes {
            HEAVY_BYTES.. => ExpectedWork::Work(RequestWeight::HeavyWrite),
            _ if reads_past(method, uri) => ExpectedWork::Work(RequestWeight::HeavyRead),
            // ADK's list has the metadata of all versions, and ours that of a page.
            _ if uri.path().ends_with("/versions/metadata") || route.ends_with("/versions") => {
                ExpectedWork::LargeAnswer
            }
            // The request may search thousands of items and find nothing, so the size of the answer says nothing about
            // its weight.
            _ if searches(route, uri) => ExpectedWork::Work(RequestWeight::HeavyRead),
            _ => expected(method, route),
        };
        // If a part of a session is small, the whole session may still be large.
        let query = uri.query().filter(|_| expected == ExpectedWork::LargeAnswer);
        let path = self.hasher.hash_one((expected == ExpectedWork::LargeAnswer, uri.path(), query));
        let weight = match expected {
            ExpectedWork::Work(weight) => weight,
            _ if (expected == ExpectedWork::LargeAnswer) == self.was_unexpected(path) => RequestWeight::Light,
            _ => RequestWeight::HeavyRead,
        };
        Weighed { weight, expected, path }
    }

    /// Remembers the size of an answer; `None` if the answer is streamed, or too large to be sent.
    pub(super) fn remember(&self, weighed: Weighed, answer_bytes: Option<u64>) {
        let expects_large = match weighed.expected {
            ExpectedWork::SmallAnswer => false,
            ExpectedWork::LargeAnswer => true,
            ExpectedWork::Work(_) => return,
        };
        let is_large = answer_bytes.is_none_or(|bytes| bytes >= HEAVY_BYTES);
        let [newer, older] = &mut *self.unexpected.lock().unwrap_or_else(PoisonError::into_inner);
        if is_large == expects_large {
            newer.remove(&weighed.path);
            older.remove(&weighed.path);
        } else if newer.insert(weighed.path) && newer.len() >= REMEMBERED {
            *older = std::mem::take(newer);
        }
    }

    fn was_unexpected(&self, path: u64) -> bool {
        let unexpected = self.unexpected.lock().unwrap_or_else(PoisonError::into_inner);
        unexpected.iter().any(|paths| paths.contains(&path))
    }
}

/// Returns whether a request asks for the state at an earlier event, which is folded from events and logs.
fn reads_past(method: &Method, uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    [Method::GET, Method::HEAD].contains(method)
        && form_urlencoded::parse(query.as_bytes()).any(|(name, value)| name == "at" && !value.is_empty())
}

/// Returns whether a request searches a list, so that it may read much and return little. Such requests ask for events
/// by their times, for sessions by something other than their user, or for sessions in the order of their creation.
fn searches(route: &str, uri: &Uri) -> bool {
    let is_of_events = route.ends_with("/{app}/sessions/{session}/events");
    if Surface::of(uri.path()) != Some(Surface::Vertex) || !(is_of_events || route.ends_with("/{app}/sessions")) {
        return false;
    }
    let query = uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).any(|(name, value)| match &*name {
        "filter" if is_of_events => !value.is_empty(),
        "filter" => ["labels", "display_name", "displayName"].iter().any(|field| value.contains(field)),
        "orderBy" | "order_by" => !is_of_events && value.contains("create"),
        _ => false,
    })
}

fn expected(method: &Method, route: &str) -> ExpectedWork {
    const SESSIONS: &str = "/apps/{app}/users/{user}/sessions";
    const SESSION: &str = "/apps/{app}/users/{user}/sessions/{session}";
    let last = route.rsplit('/').next().unwrap_or_default();
    match *method {
        Method::GET | Method::HEAD if route == SESSIONS || route == SESSION => ExpectedWork::LargeAnswer,
        // ADK's PATCH answers with the whole session, which it reads after its commit.
        Method::PATCH if route == SESSION => ExpectedWork::LargeAnswer,
        // These routes read a whole history and return little.
        Method::GET | Method::HEAD if matches!(last, "verify" | "blame" | "diff" | "{invocation}") => {
            ExpectedWork::Work(RequestWeight::HeavyRead)
        }
        // The inspector searches events for the writes to a key.
        Method::GET | Method::HEAD if last == "history" && surface::is_of_inspector(route) => {
            ExpectedWork::Work(RequestWeight::HeavyRead)
        }
        Method::POST if matches!(last, "fork" | "rewind" | "delete" | "prune" | "prune-expired") => {
            ExpectedWork::Work(RequestWeight::HeavyWrite)
        }
        Method::DELETE if matches!(last, "{session}" | "{user}") => ExpectedWork::Work(RequestWeight::HeavyWrite),
        _ => ExpectedWork::SmallAnswer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "/apps/{app}/users/{user}/sessions/{session}";
    const EVENTS: &str = "/v1/apps/{app}/users/{user}/sessions/{session}/events";

    #[test]
    fn a_whole_session_is_heavy_until_it_was_seen_to_be_small() {
        let sizes = Sizes::new();
        let weigh = |path| sizes.weigh(&Method::GET, SESSION, &Uri::from_static(path), 0);
        let first = weigh("/apps/a/users/u/sessions/s");
        assert_eq!(first.weight, RequestWeight::HeavyRead);
        sizes.remember(first, Some(HEAVY_BYTES - 1));
        assert_eq!(weigh("/apps/a/users/u/sessions/s").weight, RequestWeight::Light);
        assert_eq!(weigh("/apps/a/users/u/sessions/t").weight, RequestWeight::HeavyRead);
        assert_eq!(weigh("/apps/a/users/u/sessions/s?num_recent_events=9").weight, RequestWeight::HeavyRead);
        sizes.remember(weigh("/apps/a/users/u/sessions/s"), None);
        assert_eq!(weigh("/apps/a/users/u/sessions/s").weight, RequestWeight::HeavyRead);
    }

    #[test]
    fn a_page_is_light_until_it_was_seen_to_be_large() {
        let sizes = Sizes::new();
        let weigh = || sizes.weigh(&Method::GET, EVENTS, &Uri::from_static("/v1/apps/a/users/u/sessions/s/events"), 0);
        assert_eq!(weigh().weight, RequestWeight::Light);
        sizes.remember(weigh(), Some(HEAVY_BYTES));
        assert_eq!(weigh().weight, RequestWeight::HeavyRead);
        sizes.remember(weigh(), Some(1));
        assert_eq!(weigh().weight, RequestWeight::Light);
    }

    #[test]
    fn the_state_at_an_earlier_event_is_heavy() {
        let sizes = Sizes::new();
        let weigh = |uri| sizes.weigh(&Method::GET, "/v1/x/state", &Uri::from_static(uri), 0).weight;
        assert_eq!(weigh("/v1/x/state?key=a&at=3"), RequestWeight::HeavyRead);
        assert_eq!(weigh("/v1/x/state?key=at"), RequestWeight::Light);
    }

    #[test]
    fn work_is_heavy_whatever_its_answer() {
        let sizes = Sizes::new();
        for (method, route, bytes, expected) in [
            (Method::POST, EVENTS, HEAVY_BYTES, RequestWeight::HeavyWrite),
            (Method::POST, EVENTS, HEAVY_BYTES - 1, RequestWeight::Light),
            (Method::POST, "/v1/apps/{app}/users/{user}/sessions/{session}/fork", 9, RequestWeight::HeavyWrite),
            (Method::GET, "/v1/apps/{app}/users/{user}/sessions/{session}/verify", 0, RequestWeight::HeavyRead),
            (Method::DELETE, SESSION, 0, RequestWeight::HeavyWrite),
        ] {
            for _ in 0..2 {
                let weighed = sizes.weigh(&method, route, &Uri::from_static("/path"), bytes);
                assert_eq!(weighed.weight, expected, "{method} {route}");
                sizes.remember(weighed, Some(2));
            }
        }
    }

    #[test]
    fn a_list_that_is_searched_is_heavy_whatever_it_finds() {
        let sizes = Sizes::new();
        let (sessions, events) = ("/v1beta1/reasoningEngines/{app}/sessions", "/sessions/{session}/events");
        let events = &*format!("/v1/projects/{{project}}/locations/{{location}}/reasoningEngines/{{app}}{events}");
        for (route, uri, expected) in [
            (sessions, "/v1beta1/reasoningEngines/a/sessions?filter=labels.a%3Db", RequestWeight::HeavyRead),
            (
                sessions,
                "/v1beta1/reasoningEngines/a/sessions?pageSize=9&filter=d%69splay_name=x",
                RequestWeight::HeavyRead,
            ),
            (sessions, "/v1beta1/reasoningEngines/a/sessions?filter=displayName=x", RequestWeight::HeavyRead),
            (sessions, "/v1beta1/reasoningEngines/a/sessions?orderBy=create_time", RequestWeight::HeavyRead),
            (sessions, "/v1beta1/reasoningEngines/a/sessions?order_by=createTime+desc", RequestWeight::HeavyRead),
            (sessions, "/v1beta1/reasoningEngines/a/sessions?filter=user_id%3D%22u%22", RequestWeight::Light),
            (sessions, "/v1beta1/reasoningEngines/a/sessions?filter=&orderBy=update_time", RequestWeight::Light),
            (
                events,
                "/v1/projects/p/locations/l/reasoningEngines/a/sessions/s/events?filter=x",
                RequestWeight::HeavyRead,
            ),
            (events, "/v1/projects/p/locations/l/reasoningEngines/a/sessions/s/events?filter=", RequestWeight::Light),
            (EVENTS, "/v1/apps/a/users/u/sessions/s/events?filter=x", RequestWeight::Light),
        ] {
            for _ in 0..2 {
                let weighed = sizes.weigh(&Method::GET, route, &Uri::from_static(uri), 0);
                assert_eq!(weighed.weight, expected, "{uri}");
                sizes.remember(weighed, Some(2));
            }
        }
    }

    #[test]
    fn the_paths_that_were_asked_for_last_are_remembered() {
        let sizes = Sizes::new();
        let ask = |n: usize| {
            let weighed = sizes.weigh(&Method::GET, SESSION, &format!("/{n}").parse().unwrap(), 0);
            sizes.remember(weighed, Some(2));
            weighed.weight
        };
        for n in 0..3 * REMEMBERED {
            assert_eq!(ask(n), RequestWeight::HeavyRead, "{n}");
        }
        assert_eq!(ask(3 * REMEMBERED - 1), RequestWeight::Light);
        let kept: usize = sizes.unexpected.lock().unwrap().iter().map(HashSet::len).sum();
        assert!(kept <= 2 * REMEMBERED, "{kept}");
    }
}
