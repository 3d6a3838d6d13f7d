//! Ids that an app has once, wanted by several processes at the same time; and what it costs to find whose one is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use scratchbook::{
    CreateSessionConfig, ErrorKind, InMemorySessionService, SessionKey, SessionService, StateDelta, StateOwner,
};

use crate::database::{APP, Database};

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

/// How many times longer it takes to find one of many sessions than one of a few.
async fn cost_of_many(few: &dyn SessionService, many: &dyn SessionService) -> f64 {
    let time = async |service: &dyn SessionService| {
        let start = Instant::now();
        for n in 1..=200 {
            let found = service.locate_session("many", &format!("s{n}")).await.unwrap();
            assert_eq!(found, Some(SessionKey::new("many", &format!("user{}", n % 100), &format!("s{n}")).unwrap()));
        }
        start.elapsed().as_secs_f64()
    };
    let mut ratios = Vec::new();
    for _ in 0..9 {
        let (of_few, of_many) = (time(few).await, time(many).await);
        ratios.push(of_many / of_few);
    }
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

const FEW: usize = 1000;
const MANY: usize = 100_000;
/// A look at all of them would take 100 times as long.
const MOST: f64 = 4.0;

#[tokio::test]
async fn a_session_is_found_among_a_hundred_thousand_in_memory_as_fast_as_among_a_thousand() {
    let [few, many] = [FEW, MANY].map(|count| async move {
        let service = InMemorySessionService::new();
        for n in 1..=count {
            let config = CreateSessionConfig::default().with_session_id(format!("s{n}"));
            service.create_session("many", &format!("user{}", n % 100), config).await.unwrap();
        }
        service
    });
    let ratio = cost_of_many(&few.await, &many.await).await;
    assert!(ratio < MOST, "{ratio:.1} times as long");
}

#[tokio::test]
async fn a_session_is_found_among_a_hundred_thousand_in_a_file_as_fast_as_among_a_thousand() {
    let files = [FEW, MANY].map(|count| async move {
        let database = Database::new();
        database.open().await.close().await.unwrap();
        database.sql(&format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})
             INSERT INTO sessions (app_name, user_id, id, seq, create_time, update_time, position)
             SELECT 'many', 'user' || (n % 100), 's' || n, 0, 0, n, 0 FROM numbers"
        ));
        database
    });
    let [few, many] = files;
    let (few, many) = (few.await, many.await);
    let ratio = cost_of_many(&few.open().await, &many.open().await).await;
    assert!(ratio < MOST, "{ratio:.1} times as long");
}
