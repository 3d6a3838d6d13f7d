//! Many tasks on few sessions: reused ids, deletions and creations, shared keys, and readers of the logs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use scratchbook::session::{ChangeQuery, StateChange, StateOwner};
use scratchbook::state::fold;
use scratchbook::store::PostgresSessionService;
use scratchbook::{AppendOptions, CreateSessionConfig, ErrorKind, SessionKey, SessionService, StateDelta};
use serde_json::{Map, Value, json};

use super::server::TestSchema;
use crate::database::{event, number_from_env};
use crate::generate::Dice;

const APP: &str = "app";
/// The last user is never deleted, so that its log can be read from the beginning.
const USERS: [&str; 3] = ["a", "b", "kept"];
const SERVICES: usize = 4;
const TASKS: usize = 24;
/// The minimum number of calls of a task, however slow the machine is.
const AT_LEAST: u64 = 50;

/// `SCRATCHBOOK_STRESS_SECONDS` sets the duration.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_doubled_or_orphaned_under_stress() {
    let schema = TestSchema::new();
    let mut services = Vec::new();
    for _ in 0..SERVICES {
        services.push(Arc::new(PostgresSessionService::connect(&schema.uri("&pool_size=4")).await.unwrap()));
    }
    let end = Instant::now() + Duration::from_secs(number_from_env("SCRATCHBOOK_STRESS_SECONDS", 4));
    let over = Arc::new(AtomicBool::new(false));
    let owners = [StateOwner::app(APP).unwrap(), StateOwner::user(APP, "kept").unwrap()];
    let readers = owners.clone().map(|owner| tokio::spawn(follow(Arc::clone(&services[0]), owner, Arc::clone(&over))));
    let done = Arc::new(AtomicU64::new(0));
    let tasks = (0..TASKS).map(|task| {
        let (service, done) = (Arc::clone(&services[task % SERVICES]), Arc::clone(&done));
        tokio::spawn(async move {
            let mut dice = Dice::new(task as u64 + 1);
            let mut calls = 0;
            while Instant::now() < end || calls < AT_LEAST {
                call(&service, &mut dice).await;
                calls += 1;
            }
            done.fetch_add(calls, Ordering::Relaxed);
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for task in tasks {
        task.await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    println!("{} calls", done.load(Ordering::Relaxed));
    for (reader, owner) in readers.into_iter().zip(owners) {
        let seen = reader.await.unwrap();
        let log = services[1].list_state_changes(&owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
        let places = |log: &[StateChange]| -> Vec<_> {
            log.iter().map(|change| (change.position, change.name.clone(), change.version)).collect()
        };
        assert!(log.len() > 50, "{} changes", log.len());
        assert_eq!(places(&seen), places(&log), "what a reader beside the writers saw of {owner:?}");
        check_log(services[1].as_ref(), &owner, &log).await;
    }
    check_rows(&schema).await;
    for user in USERS {
        check_sessions(services[1].as_ref(), user).await;
    }
}

/// Makes one random call. It may fail only with expected errors.
async fn call(service: &PostgresSessionService, dice: &mut Dice) {
    let user = USERS[dice.roll(3) as usize];
    let session = format!("s{}", dice.roll(2));
    let key = SessionKey::new(APP, user, &session).unwrap();
    let value = dice.roll(1000);
    let mut delta = StateDelta::new();
    for name in ["a", "b", "user:u", "user:v", "app:x", "app:y"] {
        match dice.roll(4) {
            0 => delta.set(name, value).unwrap(),
            1 => delta.remove(name).unwrap(),
            _ => {}
        }
    }
    let shared = StateDelta::new().with("x", value).unwrap().with("u", value).unwrap();
    let allowed = [ErrorKind::NotFound, ErrorKind::AlreadyExists];
    let result = match dice.roll(100) {
        0..70 => {
            // There are few ids, so that they repeat. The same id may come with the same or with other content.
            let event = event(delta).with_id(format!("e{}", dice.roll(400))).with_timestamp(1.0);
            service.append(&key, event, AppendOptions::default()).await.map(drop)
        }
        70..85 => {
            let events = (0..dice.roll(3)).map(|n| event(delta.clone()).with_id(format!("c{n}")));
            let config = CreateSessionConfig::default().with_session_id(&session).with_events(events.collect());
            service
                .create_session(APP, user, config.with_state(json!({"app:x": value, "user:u": 1, "a": 0})))
                .await
                .map(drop)
        }
        85..90 => service.delete_session(&key).await,
        90..94 => service.put_state(&StateOwner::user(APP, user).unwrap(), shared, user.into()).await.map(drop),
        94..98 => service.put_state(&StateOwner::app(APP).unwrap(), shared, user.into()).await.map(drop),
        _ if user != "kept" => service.delete_user(APP, user).await,
        _ => service.get_session(&key, &Default::default()).await.map(drop),
    };
    if let Err(error) = result {
        assert!(allowed.contains(&error.kind()), "{error:?}");
    }
}

/// Reads a log page by page, each after the last position seen, until the writers are done and the log ends.
async fn follow(service: Arc<PostgresSessionService>, owner: StateOwner, over: Arc<AtomicBool>) -> Vec<StateChange> {
    let mut seen: Vec<StateChange> = Vec::new();
    loop {
        let was_over = over.load(Ordering::Relaxed);
        let after = seen.last().map_or(0, |change| change.position);
        let page = service.list_state_changes(&owner, &ChangeQuery::After(after), 3).await.unwrap();
        if page.is_empty() && was_over {
            return seen;
        }
        seen.extend(page);
    }
}

/// Checks that positions increase, that versions increase by one, and that the state is the fold of the log.
async fn check_log(service: &PostgresSessionService, owner: &StateOwner, log: &[StateChange]) {
    let mut versions = BTreeMap::new();
    let mut state = Map::new();
    let mut last = (0, String::new());
    for change in log {
        let place = (change.position, change.name.clone());
        assert!(place > last, "{place:?} after {last:?}");
        last = place;
        let version: &mut u64 = versions.entry(change.name.clone()).or_default();
        *version += 1;
        assert_eq!(change.version, *version, "{change:?}");
        match &change.value {
            Some(value) => state.insert(change.name.clone(), value.clone()),
            None => state.remove(&change.name),
        };
    }
    assert_eq!(service.get_state(owner).await.unwrap(), state, "{owner:?}");
}

/// Checks that no rows of removed sessions and users are left.
async fn check_rows(schema: &TestSchema) {
    for table in ["initial_states", "session_states", "events"] {
        let orphans = format!(
            "SELECT count(*) FROM {table} AS t WHERE NOT EXISTS (SELECT 1 FROM sessions AS s
             WHERE (s.app_name, s.user_id, s.id) = (t.app_name, t.user_id, t.session_id))"
        );
        assert_eq!(schema.number(&orphans).await, 0, "{table}");
    }
    for table in ["sessions", "user_states"] {
        let orphans = format!(
            "SELECT count(*) FROM {table} AS t WHERE NOT EXISTS (SELECT 1 FROM users AS u
             WHERE (u.app_name, u.user_id) = (t.app_name, t.user_id))"
        );
        assert_eq!(schema.number(&orphans).await, 0, "{table}");
    }
    let doubled = "SELECT count(*) FROM (SELECT position FROM events GROUP BY position HAVING count(*) > 1) AS p";
    assert_eq!(schema.number(doubled).await, 0, "two events have one position");
}

async fn check_sessions(service: &PostgresSessionService, user: &str) {
    let page = service
        .list_sessions(APP, &scratchbook::session::ListSessionsConfig::default().with_user_id(user))
        .await
        .unwrap();
    for listed in page.sessions {
        let session = service.get_session(listed.key(), &Default::default()).await.unwrap().unwrap();
        let numbers: Vec<_> = session.events().iter().map(|event| event.seq.unwrap()).collect();
        assert_eq!(numbers, (1..=session.seq()).collect::<Vec<_>>(), "{}", session.key());
        let initial = json!({"a": 0}).as_object().unwrap().clone();
        let folded = fold(initial, session.events().iter().map(|event| &event.actions.state_delta));
        let own = |state: Map<String, Value>| -> BTreeMap<_, _> {
            state.into_iter().filter(|(key, _)| !key.contains(':')).collect()
        };
        assert_eq!(own(session.state().to_map()), own(folded), "{}", session.key());
    }
}
