//! Concurrent increments by several processes: none is lost, and none counts twice. Each store's tests use these parts.

use std::sync::Arc;

use futures_util::future::join_all;
use scratchbook::{ErrorKind, Session, SessionService, SessionServiceExt, StateDelta};
use serde_json::json;

use crate::database::{append, check_whole, create, event, get, key, setting};

pub(crate) const PROCESSES: usize = 4;
const WRITERS: usize = 2 * PROCESSES;
/// The number of increments of each of the eight writers.
const INCREMENTS: usize = 1000 / WRITERS;
const RETRIES: usize = 10;

/// Creates the session in which all writers count.
pub(crate) async fn begin(service: &dyn SessionService) {
    create(service, "shared", json!({"n": 0})).await;
}

/// The work of one process: two concurrent writers.
pub(crate) async fn count<S: SessionService>(service: &Arc<S>, process: usize) {
    let writers = [process, process + PROCESSES].map(|writer| {
        let service = Arc::clone(service);
        tokio::spawn(async move { count_as(&service, writer).await })
    });
    join_all(writers).await.into_iter().for_each(|done| done.unwrap());
}

async fn count_as<S: SessionService>(service: &Arc<S>, writer: usize) {
    let key = key("shared");
    for n in 0..INCREMENTS {
        let delta = StateDelta::new().with_increment("n", 1).unwrap().with_increment("user:n", 1).unwrap();
        let delta = delta.with_increment("app:n", 1).unwrap().with_append("list", json!([writer, n])).unwrap();
        let delta = delta.with_set_if_absent("first", 1).unwrap();
        append(service, &key, event(delta)).await.unwrap();
    }
    let mut session = get(service, &key).await.unwrap();
    for _ in 0..RETRIES {
        let more = |session: &Session| {
            let read: u64 = session.state().get_as("app:read")?.unwrap_or(0);
            Ok(setting("app:read", read + 1))
        };
        // About twenty tries may be too few while eight writers saturate the store.
        while let Err(error) = service.append_retrying(&mut session, more).await {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        }
    }
}

/// Checks that every increment of all processes has counted once.
pub(crate) async fn check(service: &dyn SessionService) {
    let session = get(service, &key("shared")).await.unwrap();
    let mut state = session.state().to_map();
    let mut list = state.remove("list").unwrap().as_array().unwrap().iter().map(|v| v.to_string()).collect::<Vec<_>>();
    list.sort();
    list.dedup();
    assert_eq!(list.len(), 1000);
    let read_by_key = WRITERS * RETRIES;
    assert_eq!(json!(state), json!({"n": 1000, "user:n": 1000, "app:n": 1000, "app:read": read_by_key, "first": 1}));
    assert_eq!(session.seq(), 1000 + read_by_key as u64);
    let initial = json!({"n": 0}).as_object().unwrap().clone();
    check_whole(service, &initial).await;
}
