//! Operations, with interference of every kind between their reads and their writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use scratchbook::session::{ChangeQuery, Outcome, StateOwner};
use scratchbook::store::PostgresSessionService;
use scratchbook::{AppendOptions, CreateSessionConfig, ErrorKind, Event, SessionKey, SessionService, StateDelta};
use scratchbook_test_servers::Proxy;
use serde_json::{Value, json};

use super::server::TestSchema;
use super::wire::lose_an_answer;
use crate::database::{append, check_whole, create, event, get, key, number_from_env, setting};
use crate::generate::Dice;

const USERS: [&str; 2] = ["a", "b"];
const SESSIONS: u64 = 2;
const TASKS: u64 = 16;
const AT_LEAST: u64 = 60;
/// The author of increments outside of any session.
const ADDER: &str = "adder";

/// Returns an increment of the session's, the user's and the app's counter.
fn one_more() -> StateDelta {
    let delta = StateDelta::new().with_increment("n", 1).unwrap().with_increment("user:n", 1).unwrap();
    delta.with_increment("app:n", 1).unwrap()
}

/// `SCRATCHBOOK_STRESS_SECONDS` sets the duration.
#[tokio::test(flavor = "multi_thread")]
async fn each_increment_builds_on_the_write_before_it() {
    let schema = TestSchema::new();
    let mut services = Vec::new();
    for _ in 0..4 {
        services.push(Arc::new(PostgresSessionService::connect(&schema.uri("&pool_size=3")).await.unwrap()));
    }
    let end = Instant::now() + Duration::from_secs(number_from_env("SCRATCHBOOK_STRESS_SECONDS", 4));
    let tasks = (0..TASKS).map(|task| {
        let service = Arc::clone(&services[task as usize % services.len()]);
        tokio::spawn(async move {
            let mut dice = Dice::new(task + 1);
            let mut calls = 0;
            while Instant::now() < end || calls < AT_LEAST {
                call(&service, &mut dice, format!("{task}-{calls}")).await;
                calls += 1;
            }
            calls
        })
    });
    let mut calls = 0;
    for task in tasks.collect::<Vec<_>>() {
        calls += task.await.unwrap();
    }
    println!("{calls} calls");
    let service = services[0].as_ref();
    let app = StateOwner::app("app").unwrap();
    let users = USERS.map(|user| StateOwner::user("app", user).unwrap());
    for owner in users.iter().chain([&app]) {
        check_log(service, owner).await;
    }
    for user in USERS {
        for session in 0..SESSIONS {
            let key = SessionKey::new("app", user, &format!("s{session}")).unwrap();
            if let Some(session) = get(service, &key).await {
                let events = session.events().iter();
                let writes = events.filter_map(|event| {
                    let change = event.actions.state_delta.get("n")?;
                    Some((is_increment(&event.id), change.value().cloned()))
                });
                check_chain(&format!("{key}"), Some(json!(100)), writes);
            }
        }
    }
}

fn is_increment(id: &str) -> bool {
    id.starts_with('i')
}

/// Makes one random call. It may fail only with expected errors.
async fn call(service: &PostgresSessionService, dice: &mut Dice, id: String) {
    let user = USERS[dice.roll(2) as usize];
    let session = format!("s{}", dice.roll(SESSIONS));
    let key = SessionKey::new("app", user, &session).unwrap();
    let owner = if dice.roll(2) == 0 { StateOwner::app("app") } else { StateOwner::user("app", user) }.unwrap();
    let append = |event: Event| service.append(&key, event.with_timestamp(1.0), AppendOptions::default());
    let done = match dice.roll(100) {
        0..50 => append(event(one_more()).with_id(format!("i{id}"))).await.map(drop),
        // There are few ids, so that they repeat. The increments with one id are equal, and count once per session.
        50..60 => append(event(one_more()).with_id(format!("i{}", dice.roll(50)))).await.map(drop),
        60..70 => append(setting("other", id)).await.map(drop),
        70..76 => {
            let name = ["n", "user:n", "app:n"][dice.roll(3) as usize];
            append(setting(name, dice.roll(1000)).with_id(format!("s{id}"))).await.map(drop)
        }
        76..79 => {
            let mut delta = StateDelta::new();
            delta.remove(["n", "user:n", "app:n"][dice.roll(3) as usize]).unwrap();
            append(event(delta).with_id(format!("r{id}"))).await.map(drop)
        }
        79..87 => {
            let delta = StateDelta::new().with_increment("n", 1).unwrap();
            service.put_state(&owner, delta, ADDER.into()).await.map(drop)
        }
        87..91 => {
            let delta = StateDelta::new().with("n", dice.roll(1000)).unwrap();
            service.put_state(&owner, delta, "admin".into()).await.map(drop)
        }
        91..97 => {
            let events = (0..dice.roll(3)).map(|n| event(one_more()).with_id(format!("i{n}")).with_timestamp(1.0));
            let config = CreateSessionConfig::default().with_session_id(&session).with_events(events.collect());
            service.create_session("app", user, config.with_state(json!({"n": 100, "user:m": 1}))).await.map(drop)
        }
        _ => service.delete_session(&key).await,
    };
    if let Err(error) = done {
        assert!([ErrorKind::NotFound, ErrorKind::AlreadyExists].contains(&error.kind()), "{error:?}");
    }
}

async fn check_log(service: &PostgresSessionService, owner: &StateOwner) {
    let log = service.list_state_changes(owner, &ChangeQuery::After(0), usize::MAX).await.unwrap();
    let of_n: Vec<_> = log.into_iter().filter(|change| change.name == "n").collect();
    let versions: Vec<_> = of_n.iter().map(|change| change.version).collect();
    assert_eq!(versions, (1..=of_n.len() as u64).collect::<Vec<_>>(), "{owner:?}");
    let writes =
        of_n.into_iter().map(|change| (is_increment(&change.event_id) || change.author == ADDER, change.value));
    let last = check_chain(&format!("{owner:?}"), None, writes);
    assert_eq!(service.get_state(owner).await.unwrap().get("n"), last.as_ref(), "{owner:?}");
}

/// Checks that each increment adds one to the write before it. Returns the last value.
fn check_chain(of: &str, first: Option<Value>, writes: impl Iterator<Item = (bool, Option<Value>)>) -> Option<Value> {
    let (mut value, mut increments) = (first, 0);
    for (is_increment, written) in writes {
        if is_increment {
            let found = value.as_ref().map_or(0, |value| value.as_u64().unwrap());
            assert_eq!(written, Some(json!(found + 1)), "of {of}");
            increments += 1;
        }
        value = written;
    }
    println!("{increments} increments of {of}");
    value
}

/// Lets eight tasks count in two sessions through a proxy while `disturb` runs. Checks that every increment succeeds
/// and counts once.
async fn count_while(disturb: impl AsyncFnOnce(&Proxy)) {
    let schema = TestSchema::new();
    let proxy = Proxy::before(schema.server()).unwrap();
    let uri = schema.uri_by(&proxy.uri(schema.server()).unwrap(), "");
    let service = Arc::new(PostgresSessionService::connect(&uri).await.unwrap());
    for session in ["s0", "s1"] {
        create(service.as_ref(), session, json!({})).await;
    }
    let over = Arc::new(AtomicBool::new(false));
    let tasks = (0..8).map(|task| {
        let (service, over) = (Arc::clone(&service), Arc::clone(&over));
        tokio::spawn(async move {
            let key = key(&format!("s{}", task % 2));
            let mut done = 0;
            while !over.load(Ordering::Relaxed) || done < 20 {
                append(service.as_ref(), &key, event(one_more())).await.unwrap();
                // This append has no operations, so it is in a batch with others.
                append(service.as_ref(), &key, setting("other", done)).await.unwrap();
                done += 1;
            }
            done
        })
    });
    let tasks: Vec<_> = tasks.collect();
    disturb(&proxy).await;
    over.store(true, Ordering::Relaxed);
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    let sessions = check_whole(service.as_ref(), &Default::default()).await;
    let own: u64 = sessions.iter().map(|session| session.state().get_as::<u64>("n").unwrap().unwrap()).sum();
    let shared = ["user:n", "app:n"].map(|key| sessions[0].state().get(key).cloned());
    assert_eq!((own, shared), (done, [Some(json!(done)), Some(json!(done))]));
}

#[tokio::test(flavor = "multi_thread")]
async fn increments_on_connections_that_are_cut_count_once() {
    let cut = async |proxy: &Proxy| {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            proxy.cut();
        }
    };
    count_while(cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn increments_whose_answers_are_lost_count_once() {
    let swallow = async |proxy: &Proxy| {
        for lost in 1..=30 {
            lose_an_answer(proxy, lost).await;
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    };
    count_while(swallow).await;
}

/// Makes a call and loses only its n-th answer.
async fn without_answer<T>(proxy: &Proxy, nth: u64, call: impl Future<Output = T>) -> T {
    let before = proxy.turns();
    // The delay is longer than it takes to see that a round trip has begun.
    proxy.delay(Duration::from_millis(50));
    let lose = async {
        while proxy.turns() < before + nth - 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        proxy.swallow(1);
    };
    let (done, ()) = tokio::join!(call, lose);
    proxy.delay(Duration::ZERO);
    done
}

/// Loses the answer of either round trip: of the read, and of the write with its commit.
#[tokio::test]
async fn an_increment_is_known_again_whichever_answer_was_lost() {
    let schema = TestSchema::new();
    let proxy = Proxy::before(schema.server()).unwrap();
    let uri = schema.uri_by(&proxy.uri(schema.server()).unwrap(), "");
    let service = PostgresSessionService::connect(&uri).await.unwrap();
    create(&service, "s", json!({})).await;
    let key = key("s");
    for (nth, outcome) in [(1, Outcome::Stored), (2, Outcome::Replayed)] {
        append(&service, &key, event(one_more())).await.unwrap();
        let append = service.append(&key, event(one_more()), AppendOptions::default());
        let committed = without_answer(&proxy, nth, append).await.unwrap();
        assert_eq!((committed.outcome, committed.event.seq), (outcome, Some(2 * nth)));
        let delta = &committed.event.actions.state_delta;
        assert_eq!(delta.get("n").and_then(|n| n.value()), Some(&json!(2 * nth)));
    }
    let owner = StateOwner::app("app").unwrap();
    for (nth, error) in [(1, None), (2, Some(ErrorKind::Unavailable))] {
        let put = || {
            let delta = StateDelta::new().with_increment("puts", 1).unwrap();
            service.put_state(&owner, delta, ADDER.into())
        };
        put().await.unwrap();
        // A retry could count twice, so the call is retried only if it certainly was not applied.
        let done = without_answer(&proxy, nth, put()).await;
        assert_eq!(done.err().map(|error| error.kind()), error);
        assert_eq!(service.get_state(&owner).await.unwrap()["puts"], 2 * nth);
    }
    for nth in 1..=4 {
        let made = |id: String| {
            let config = CreateSessionConfig::default().with_session_id(id).with_events(vec![event(one_more())]);
            service.create_session("app", "bob", config)
        };
        made(format!("warm{nth}")).await.unwrap();
        let session = without_answer(&proxy, nth, made(format!("made{nth}"))).await.unwrap();
        assert_eq!(session.state().get("n"), Some(&json!(1)));
        assert_eq!(session.state().get("user:n"), Some(&json!(2 * nth)));
    }
}
