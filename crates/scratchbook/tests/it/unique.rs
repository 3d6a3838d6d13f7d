//! Ids that an app has once, wanted by several processes at the same time; and what it costs to find whose one is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use scratchbook::session::StateOwner;
use scratchbook::{CreateSessionConfig, ErrorKind, InMemorySessionService, SessionKey, SessionService, StateDelta};

use crate::database::APP;

pub(crate) const PROCESSES: usize = 4;
/// How many users of each process want each id.
const USERS: usize = 4;
const IDS: usize = 25;

fn app() -> StateOwner {
    StateOwner::app(APP).unwrap()
}

async fn add(service: &dyn SessionService, name: &str) {
    let one = StateDelta::new().with_increment(name, 1).unwrap();
    service.put_state(&app(), one, "test".into()).await.unwrap();
}

/// What one of the processes does: its users want one id after the other, at the same time as those of the others.
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
            // One in four is written in another way.
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

/// What is there when all of them have ended: each id once, made by one of those who wanted it.
pub(crate) async fn check(service: &dyn SessionService) {
    assert_eq!(service.get_state(&app()).await.unwrap()["won"], IDS);
    for n in 0..IDS {
        let found = service.locate_session(APP, &format!("s{n}")).await.unwrap();
        assert!(found.is_some(), "s{n}");
    }
    let listed = service.list_sessions(APP, &Default::default()).await.unwrap().sessions;
    assert_eq!(listed.len(), IDS);
}

/// The least time that some looks for sessions take, of several rounds: what else the machine does can only add to it.
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

/// A look at all of them would take a hundred times as long. What the databases do for it is counted in their own tests.
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
