//! Many tasks work on few sessions: ids are reused, sessions and users are deleted and created again, logs are read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;
use scratchbook::session::{ChangeQuery, StateChange, StateOwner};
use scratchbook::store::MySqlSessionService;
use scratchbook::{
    AppendOptions, CreateSessionConfig, ErrorKind, Event, GetSessionConfig, SessionKey, SessionService, StateDelta,
};
use serde_json::json;
use tokio::task::JoinSet;

use super::server::{TestDatabase, connection};
use crate::database::number_from_env;
use crate::generate::Dice;

fn key(dice: &mut Dice) -> SessionKey {
    SessionKey::new("app", &format!("u{}", dice.roll(2)), &format!("s{}", dice.roll(2))).unwrap()
}

fn delta(dice: &mut Dice) -> StateDelta {
    let mut delta = StateDelta::new();
    for name in ["a", "user:a", "user:b", "app:a", "app:b"] {
        match dice.roll(3) {
            0 => delta = delta.with(name, dice.roll(1000)).unwrap(),
            1 if dice.roll(4) == 0 => drop(delta.remove(name)),
            _ => {}
        }
    }
    delta
}

/// Makes one random call. It may find no data or a conflict, but it must not fail for other reasons.
async fn call(service: &MySqlSessionService, dice: &mut Dice, erase: bool) {
    let key = key(dice);
    let done = match dice.roll(40) {
        0 => service.delete_session(&key).await.map(drop),
        1 if erase => service.delete_user("app", key.user_id()).await,
        2..5 => {
            let config = CreateSessionConfig::default().with_session_id(key.session_id());
            let config = config.with_state(json!({"a": 0, "user:b": dice.roll(9), "app:b": dice.roll(9)}));
            service.create_session("app", key.user_id(), config).await.map(drop)
        }
        5..8 => {
            let owner = match dice.roll(2) {
                0 => StateOwner::user("app", key.user_id()).unwrap(),
                _ => StateOwner::app("app").unwrap(),
            };
            let delta = StateDelta::new().with("a", dice.roll(1000)).unwrap().with("put", 1).unwrap();
            service.put_state(&owner, delta, "stress".into()).await.map(drop)
        }
        8..12 => service.get_session(&key, &GetSessionConfig::default()).await.map(drop),
        _ => {
            let id = format!("e{}", dice.roll(400));
            let event = Event::new("agent").with_id(id).with_timestamp(1.0).with_state_delta(delta(dice));
            service.append(&key, event, AppendOptions::default()).await.map(drop)
        }
    };
    if let Err(error) = done {
        assert!(matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists), "{error:?}");
    }
}

/// Follows a log from its beginning until the writers are done, page by page.
async fn follow(service: Arc<MySqlSessionService>, owner: StateOwner, over: Arc<AtomicBool>) -> Vec<StateChange> {
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let last = over.load(Relaxed);
        let page = service.list_state_changes(&owner, &ChangeQuery::After(after), 3).await.unwrap();
        if page.is_empty() {
            if last {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        after = page.last().map_or(after, |change| change.position);
        seen.extend(page);
    }
}

async fn stress(erase: bool) {
    let database = TestDatabase::emptied().await;
    let mut services = Vec::new();
    // Two services stand for two processes.
    for _ in 0..2 {
        services.push(Arc::new(MySqlSessionService::connect(&database.uri()).await.unwrap()));
    }
    let seconds = number_from_env("SCRATCHBOOK_STRESS_SECONDS", 4);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut writers = JoinSet::new();
    for writer in 0..16 {
        let service = Arc::clone(&services[writer % 2]);
        writers.spawn(async move {
            let (mut dice, mut calls) = (Dice::new(writer as u64 + 1), 0);
            while Instant::now() < end {
                call(&service, &mut dice, erase).await;
                calls += 1;
            }
            calls
        });
    }
    let owners = || {
        let users = (0..2).map(|n| StateOwner::user("app", &format!("u{n}")).unwrap());
        users.chain([StateOwner::app("app").unwrap()])
    };
    let over = Arc::new(AtomicBool::new(false));
    let mut readers: Vec<_> = Vec::new();
    if !erase {
        for owner in owners() {
            readers.push(tokio::spawn(follow(Arc::clone(&services[0]), owner, Arc::clone(&over))));
        }
    }
    let mut calls = 0;
    while let Some(done) = writers.join_next().await {
        calls += done.unwrap();
    }
    over.store(true, Relaxed);
    println!("{calls} calls");
    for (owner, reader) in owners().zip(readers) {
        let seen = reader.await.unwrap();
        let all = services[1].list_state_changes(&owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
        assert!(seen.iter().map(at).eq(all.iter().map(at)), "a reader beside the writers missed something");
    }
    for owner in owners() {
        check_owner(&services[0], &owner).await;
    }
    check_sessions(&services[0]).await;
    check_orphans(&database.uri()).await;
}

fn at(change: &StateChange) -> (u64, &str, u64) {
    (change.position, &change.name, change.version)
}

/// Checks that the state is the fold of its log, and that positions and versions increase by one.
async fn check_owner(service: &MySqlSessionService, owner: &StateOwner) {
    let log = service.list_state_changes(owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
    let mut state = serde_json::Map::new();
    let mut versions = std::collections::HashMap::new();
    for change in &log {
        let version = versions.entry(change.name.clone()).or_insert(0);
        *version += 1;
        assert_eq!(change.version, *version, "{owner:?} {change:?}");
        match &change.value {
            Some(value) => drop(state.insert(change.name.clone(), value.clone())),
            None => drop(state.remove(&change.name)),
        }
    }
    let positions: BTreeSet<_> = log.iter().map(|change| change.position).collect();
    assert!(log.is_empty() || positions.iter().copied().eq(1..=positions.len() as u64), "{owner:?} has gaps");
    let (kept, folded): (BTreeSet<_>, BTreeSet<_>) = (
        service.get_state(owner).await.unwrap().into_iter().map(|(k, v)| (k, v.to_string())).collect(),
        state.into_iter().map(|(k, v)| (k, v.to_string())).collect(),
    );
    assert_eq!(kept, folded, "{owner:?}");
}

async fn check_sessions(service: &MySqlSessionService) {
    for listed in service.list_sessions("app", &Default::default()).await.unwrap().sessions {
        let session = service.get_session(listed.key(), &GetSessionConfig::default()).await.unwrap().unwrap();
        let seqs: Vec<_> = session.events().iter().map(|event| event.seq.unwrap()).collect();
        assert!(seqs.iter().copied().eq(1..=session.seq()), "gaps in {}", session.key());
        let ids: BTreeSet<_> = session.events().iter().map(|event| &event.id).collect();
        assert_eq!(ids.len(), seqs.len());
        let initial = serde_json::Map::from_iter([("a".to_owned(), json!(0))]);
        let folded = scratchbook::state::fold(initial, session.events().iter().map(|e| &e.actions.state_delta));
        assert_eq!(session.state().get("a"), folded.get("a"), "{}", session.key());
    }
}

/// Checks that no row belongs to a missing session or user.
async fn check_orphans(uri: &str) {
    let mut own = connection(uri).await;
    for table in ["events", "session_states", "initial_states"] {
        let sql = format!(
            "SELECT COUNT(*) FROM {table} AS t LEFT JOIN sessions AS s
             ON s.app_name = t.app_name AND s.user_id = t.user_id AND s.id = t.session_id WHERE s.id IS NULL"
        );
        assert_eq!(own.query_first::<u64, _>(sql).await.unwrap(), Some(0), "orphans in {table}");
    }
    for table in ["sessions", "user_states"] {
        let sql = format!(
            "SELECT COUNT(*) FROM {table} AS t LEFT JOIN users AS u
             ON u.app_name = t.app_name AND u.user_id = t.user_id WHERE u.user_id IS NULL"
        );
        assert_eq!(own.query_first::<u64, _>(sql).await.unwrap(), Some(0), "orphans in {table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_deletes_and_readers_agree() {
    stress(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_erased_under_writers_leave_nothing_behind() {
    stress(true).await;
}
