//! Ids that are unique within an app, requested by several processes at once, and the cost of finding their users.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use scratchbook::session::StateOwner;
use scratchbook::{CreateSessionConfig, ErrorKind, InMemorySessionService, SessionKey, SessionService, StateDelta};

use crate::database::APP;

pub(crate) const PROCESSES: usize = 4;
/// The number of users per process that request each id.
const USERS: usize = 4;
const IDS: usize = 25;

fn app() -> StateOwner {
    StateOwner::app(APP).unwrap()
}

async fn add(service: &dyn SessionService, name: &str) {
    let one = StateDelta::new().with_increment(name, 1).unwrap();
    service.put_state(&app(), one, "test".into()).await.unwrap();
}

/// The work of one process: its users request one id after the other, at the same time as the users of other processes.
pub(crate) async fn want<S: SessionService>(service: &Arc<S>, process: usize) {
    for n in 0..IDS {
        let begun = format!("begun-{n}");
        add(service.as_ref(), &begun).await;
        let start = Instant::now();
        while service.get_state(&app()).await.unwrap()[&begun] != PROCESSES {
            assert!(start.elapsed() < Duration::from_secs(60), "another child has failed");
        }
        let wants = (0..USERS).map(|user| async move {
            let config = CreateSessionConfig::default().with_session_id(format!("s{n}")).with_id_unique_in_app();
            // One request in four has a title; stores write such a session in another way.
            let config = if user == 0 { config.with_title("a title") } else { config };
            service.create_session(APP, &format!("user-{process}-{user}"), config).await
        });
        for made in join_all(wants).await {
            match made {
                Ok(_) => add(service.as_ref(), "won").await,
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
            }
        }
    }
}

/// Checks the sessions after all processes have ended: each id exists once, and one request has created it.
pub(crate) async fn check(service: &dyn SessionService) {
    assert_eq!(service.get_state(&app()).await.unwrap()["won"], IDS);
    for n in 0..IDS {
        let found = service.locate_session(APP, &format!("s{n}")).await.unwrap();
        assert!(found.is_some(), "s{n}");
    }
    let listed = service.list_sessions(APP, &Default::default()).await.unwrap().sessions;
    assert_eq!(listed.len(), IDS);
}

/// Returns the shortest time of several rounds of searches, because other work of the machine can only add time.
async fn least_time(service: &dyn SessionService) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..20 {
        let start = Instant::now();
        for n in 1..=200 {
            let found = service.locate_session("many", &format!("s{n}")).await.unwrap();
            assert_eq!(found, Some(SessionKey::new("many", &format!("user{}", n % 100), &format!("s{n}")).unwrap()));
        }
        least = least.min(start.elapsed().as_secs_f64());
    }
    least
}

/// A scan of all sessions would take a hundred times as long. The databases' own tests count the rows that they read.
#[tokio::test]
async fn a_session_is_found_among_a_hundred_thousand_in_memory_as_fast_as_among_a_thousand() {
    let filled = async |count: usize| {
        let service = InMemorySessionService::new();
        for n in 1..=count {
            let config = CreateSessionConfig::default().with_session_id(format!("s{n}"));
            service.create_session("many", &format!("user{}", n % 100), config).await.unwrap();
        }
        service
    };
    let (few, many) = (filled(1000).await, filled(100_000).await);
    let ratio = least_time(&many).await / least_time(&few).await;
    println!("{ratio:.2} times as long");
    assert!(ratio < 10.0, "{ratio:.1} times as long");
}
