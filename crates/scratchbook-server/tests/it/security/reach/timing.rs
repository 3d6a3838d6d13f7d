//! Time tells nobody what there is.

use std::time::{Duration, Instant};

use axum::http::Method;
use scratchbook::{AppendOptions, Event, StateDelta, Store, connect};

use super::routes::{OWNED, Owned};
use super::{Token, World, key};

const REQUESTS: usize = 1_000;
/// How far medians may be apart.
const RATIO: f64 = 1.3;
/// How often it is measured before it is believed: others use the machine too.
const TRIES: usize = 3;

/// A session of `u2` that takes long to read.
async fn long_session(store: &Store) {
    for n in 0..300 {
        let delta = StateDelta::new().with(format!("key{n}"), "x".repeat(200)).unwrap();
        let event = Event::new("user").with_state_delta(delta);
        store.sessions.append(&key("u2", "s-2"), event, AppendOptions::default()).await.unwrap();
    }
}

/// The medians of requests that take turns.
async fn medians(world: &World, route: &Owned, uris: &[(String, String)]) -> Vec<Duration> {
    let method: Method = route.method.parse().unwrap();
    let mut times = vec![Vec::with_capacity(REQUESTS); uris.len()];
    for _ in 0..REQUESTS {
        for ((uri, body), times) in uris.iter().zip(&mut times) {
            let begun = Instant::now();
            let answer = world.send(Token::U1, method.clone(), uri, body).await;
            times.push(begun.elapsed());
            assert_eq!(answer.status, 404, "{route:?}: {answer:?}");
        }
    }
    let median = |times: &mut Vec<Duration>| *times.select_nth_unstable(REQUESTS / 2).1;
    times.iter_mut().map(median).collect()
}

async fn measure(world: &World, wanted: impl Fn(&Owned) -> bool) {
    for route in OWNED.iter().filter(|route| wanted(route)) {
        let at = |user: &str, session: &str| (route.uri("demo", user, session), route.body(user, session));
        let mut uris = vec![at("u2", "s-2"), at("u2", "s-9"), at("n0", "s-2")];
        // Of what is read by its session one's own can be missing too.
        if route.reads() && route.route.ends_with("/sessions/{session}") {
            uris.push(at("u1", "s-9"));
        }
        let mut tries = Vec::new();
        let told = loop {
            let medians = medians(world, route, &uris).await;
            let (least, most) = (medians.iter().min().unwrap(), medians.iter().max().unwrap());
            let ratio = most.as_secs_f64() / least.as_secs_f64();
            tries.push((ratio, medians));
            if ratio <= RATIO || tries.len() == TRIES {
                break ratio > RATIO;
            }
        };
        assert!(!told, "{route:?}: {tries:?}");
    }
}

#[tokio::test]
async fn what_is_out_of_reach_takes_as_long_as_what_is_missing() {
    let world = World::new().await;
    long_session(&world.store).await;
    measure(&world, |_| true).await;
}

#[tokio::test]
async fn what_is_out_of_reach_takes_as_long_as_what_is_missing_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("sqlite://{}?synchronous=normal", folder.path().join("agents.db").display());
    let world = World::over(connect(&uri).await.unwrap()).await;
    long_session(&world.store).await;
    measure(&world, |route| route.route.ends_with("/sessions/{session}") || route.route.contains("artifacts")).await;
}
