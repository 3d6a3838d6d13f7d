//! The time of an answer does not reveal what exists.
//!
//! `SCRATCHBOOK_TIMED_REQUESTS` is the number of requests to each address; 200 if it is not set.

use std::time::{Duration, Instant};

use axum::http::Method;
use scratchbook::{AppendOptions, Event, StateDelta, Store, connect};

use super::routes::{OWNED, Owned};
use super::{ReachServer, TestToken, key};

/// The largest ratio that two low deciles may have. A decile depends less on other programs than a median does.
const RATIO: f64 = 1.3;
/// How often a difference is measured before it counts, since other programs use the machine too.
const TRIES: usize = 3;

/// Makes a session of `u2` long, so that it takes long to read.
async fn long_session(store: &Store) {
    for n in 0..300 {
        let delta = StateDelta::new().with(format!("key{n}"), "x".repeat(200)).unwrap();
        let event = Event::new("user").with_state_delta(delta);
        store.sessions.append(&key("u2", "s-2"), event, AppendOptions::default()).await.unwrap();
    }
}

fn requests() -> usize {
    std::env::var("SCRATCHBOOK_TIMED_REQUESTS").map_or(200, |count| count.parse().unwrap())
}

/// Returns the low deciles of the times of requests that are sent in turns, each turn in another order.
async fn deciles(world: &ReachServer, route: &Owned, uris: &[(String, String)]) -> Vec<Duration> {
    let method: Method = route.method.parse().unwrap();
    let requests = requests();
    let mut times = vec![Vec::with_capacity(requests); uris.len()];
    for turn in 0..requests {
        for place in 0..uris.len() {
            let place = (turn + place) % uris.len();
            let (uri, body) = &uris[place];
            let begun = Instant::now();
            let answer = world.send(TestToken::U1, method.clone(), uri, body).await;
            times[place].push(begun.elapsed());
            assert_eq!(answer.status, 404, "{route:?}: {answer:?}");
        }
    }
    let decile = |times: &mut Vec<Duration>| *times.select_nth_unstable(requests / 10).1;
    times.iter_mut().map(decile).collect()
}

async fn measure(world: &ReachServer, wanted: impl Fn(&Owned) -> bool) {
    for route in OWNED.iter().filter(|route| wanted(route)) {
        let at = |user: &str, session: &str| (route.uri("demo", user, session), route.body(user, session));
        let mut uris = vec![at("u2", "s-2"), at("u2", "s-9"), at("n0", "s-2")];
        // On routes that read a session, a missing session of the caller's own is measured too.
        if route.reads() && route.route.ends_with("/sessions/{session}") {
            uris.push(at("u1", "s-9"));
        }
        let mut tries = Vec::new();
        let told = loop {
            let deciles = deciles(world, route, &uris).await;
            let (least, most) = (deciles.iter().min().unwrap(), deciles.iter().max().unwrap());
            let ratio = most.as_secs_f64() / least.as_secs_f64();
            tries.push((ratio, deciles));
            if ratio <= RATIO || tries.len() == TRIES {
                break ratio > RATIO;
            }
        };
        assert!(!told, "{route:?}: {tries:?}");
    }
}

#[tokio::test]
async fn what_is_out_of_reach_takes_as_long_as_what_is_missing() {
    let world = ReachServer::new().await;
    long_session(&world.store).await;
    measure(&world, |_| true).await;
}

#[tokio::test]
async fn what_is_out_of_reach_takes_as_long_as_what_is_missing_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("sqlite://{}?synchronous=normal", folder.path().join("agents.db").display());
    let world = ReachServer::over(connect(&uri).await.unwrap()).await;
    long_session(&world.store).await;
    measure(&world, |route| route.route.ends_with("/sessions/{session}") || route.route.contains("artifacts")).await;
}
