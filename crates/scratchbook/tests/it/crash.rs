//! A process that is killed under load loses nothing that it has acknowledged, and leaves nothing half written.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::ChildStdout;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use scratchbook::{ErrorKind, SessionService, SqliteSessionService, StateDelta};
use serde_json::{Map, Value, json};

use crate::database::{self, DatabaseFile};

const SESSIONS: usize = 4;
const WRITERS: usize = 16;
/// How many kills one database gets. With more, checking it would only take longer.
const KILLS: u64 = 5;

/// `SCRATCHBOOK_CRASH_ROUNDS` sets the number of kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_keeps_every_acknowledged_event_and_none_in_half() {
    let rounds = database::number_from_env("SCRATCHBOOK_CRASH_ROUNDS", 3);
    let (mut database, mut acknowledged) = (DatabaseFile::new(), HashMap::new());
    for round in 1..=rounds {
        acknowledged.extend(kill_a_child(&database));
        let service = database.open().await;
        let sessions = database::check_whole(&service, &initial()).await;
        let events = sessions.iter().flat_map(|session| session.events().iter());
        let stored: HashMap<_, _> = events.map(|event| (event.id.clone(), event.seq.unwrap())).collect();
        for (id, seq) in &acknowledged {
            assert_eq!(stored.get(id), Some(seq), "round {round}: {id} was acknowledged");
        }
        println!("round {round}: {} acknowledged, {} stored", acknowledged.len(), stored.len());
        service.close().await.unwrap();
        if round % KILLS == 0 || round == rounds {
            assert!(!acknowledged.is_empty(), "no child got as far as an acknowledgement");
            (database, acknowledged) = (DatabaseFile::new(), HashMap::new());
        }
    }
}

/// Lets a child work for a moment and kills it. Returns what the child has acknowledged.
fn kill_a_child(database: &DatabaseFile) -> Vec<(String, u64)> {
    let mut child = database.child("crash::a_child_appends_until_it_is_killed").spawn().unwrap();
    let output = child.stdout.take().unwrap();
    let reader = thread::spawn(move || acknowledgements(output));
    thread::sleep(random_moment());
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

/// The child process of the test above; otherwise this does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_appends_until_it_is_killed() {
    let Some(path) = database::of_parent() else {
        return;
    };
    let service = Arc::new(database::open_path(&path).await);
    for session in 0..SESSIONS {
        let config = scratchbook::CreateSessionConfig::default().with_session_id(session.to_string());
        match service.create_session(database::APP, database::USER, config.with_state(initial())).await {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists),
        }
    }
    println!();
    let writers = (0..WRITERS).map(|writer| tokio::spawn(append_forever(Arc::clone(&service), writer)));
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

fn initial() -> Map<String, Value> {
    json!({"begun": true, "step_0": "initial"}).as_object().unwrap().clone()
}

async fn append_forever(service: Arc<SqliteSessionService>, writer: usize) {
    let key = database::key(&(writer % SESSIONS).to_string());
    for n in 0.. {
        let mut delta = StateDelta::new();
        delta.set(format!("step_{}", n % 7), json!({"writer": writer, "n": n})).unwrap();
        delta.remove(format!("step_{}", (n + 3) % 7)).unwrap();
        delta.set("user:last", writer).unwrap();
        if n % 5 == 0 {
            delta.set(format!("app:count_{}", writer % 3), n).unwrap();
            delta.remove(format!("user:gone_{}", n % 2)).unwrap();
        }
        let id = format!("{}-{writer}-{n}", std::process::id());
        let seq = database::append(&service, &key, database::event(delta).with_id(id.as_str())).await.unwrap();
        println!("acknowledged {id} {seq}");
    }
}

fn acknowledgements(output: ChildStdout) -> Vec<(String, u64)> {
    let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| acknowledgement(&String::from_utf8_lossy(&line))).collect()
}

/// The last line may be cut off; its number then proves nothing.
fn acknowledgement(line: &str) -> Option<(String, u64)> {
    let (id, seq) = line.strip_prefix("acknowledged ")?.split_once(' ')?;
    Some((id.to_owned(), seq.parse().ok()?))
}

fn random_moment() -> Duration {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    Duration::from_millis(100 + u64::from(nanos / 1000 % 500))
}
