//! `/health/ready`: whether the server and its store can serve requests.
//!
//! A check commits a write, so a store that works is checked at most once in 5 seconds, and one that does not once a
//! second. All requests in the meantime share the check, and everybody may ask as often as they like.
//!
//! A full disk may still have room for the write of the check and not for others. Then the last writes decide.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use scratchbook::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::access::Access;
use crate::activity::RecentCounts;
use crate::store_probe::StoreProbe;

/// How long the store may take. A slower store counts as not ready; clients ask again soon.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the answer of a check is reused if the store works, and if it does not.
const CHECK_EVERY: Duration = Duration::from_secs(5);
const CHECK_AGAIN: Duration = Duration::from_secs(1);

/// Whether the store can be used. Clones share the last check.
#[derive(Clone, Debug)]
pub(crate) struct Readiness {
    probe: StoreProbe,
    access: Access,
    activity: Arc<RecentCounts>,
    last: Arc<Mutex<Option<ReadinessCheck>>>,
}

impl Readiness {
    pub(crate) fn new(probe: StoreProbe, access: Access, activity: Arc<RecentCounts>) -> Self {
        Self { probe, access, activity, last: Arc::default() }
    }
}

/// One check, which is in progress or has ended.
#[derive(Clone, Debug)]
struct ReadinessCheck {
    begun: Instant,
    /// `None` while the check is in progress.
    answer: watch::Receiver<Option<CheckAnswer>>,
}

/// The answer to a check.
type CheckAnswer = (StatusCode, Value);

pub(super) async fn ready(State(readiness): State<Readiness>) -> (StatusCode, Json<Value>) {
    let mut check = last_check(&readiness);
    // Every check ends with an answer, except if there is a defect.
    let answer = check.answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone());
    let (status, body) = answer.unwrap_or_else(|| (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "unavailable"})));
    if status == StatusCode::OK && readiness.activity.lacks_room() {
        let message = "most of the last writes failed for lack of room";
        let (status, body) = answer_to(&readiness.access, Err(Error::new(ErrorKind::ResourceExhausted, message)));
        return (status, Json(body));
    }
    (status, Json(body))
}

/// Returns the check that is in progress, or that began a short time ago; otherwise starts a new check. A check is a
/// separate task, so that it continues if the client that started it disconnects.
fn last_check(readiness: &Readiness) -> ReadinessCheck {
    let mut last = readiness.last.lock().unwrap_or_else(PoisonError::into_inner);
    let is_recent = |check: &&ReadinessCheck| match &*check.answer.borrow() {
        Some((StatusCode::OK, _)) => check.begun.elapsed() < CHECK_EVERY,
        Some(_) => check.begun.elapsed() < CHECK_AGAIN,
        // A check whose task was aborted is neither in progress nor over.
        None => check.answer.has_changed().is_ok(),
    };
    if let Some(check) = last.as_ref().filter(is_recent) {
        return check.clone();
    }
    let (sender, answer) = watch::channel(None);
    let check = ReadinessCheck { begun: Instant::now(), answer };
    *last = Some(check.clone());
    drop(last);
    let Readiness { probe, access, .. } = readiness.clone();
    tokio::spawn(async move { sender.send_replace(Some(answer_to(&access, check_store(&probe).await))) });
    check
}

/// Checks that the store can be used.
///
/// # Errors
///
/// The reason why the store cannot be used.
async fn check_store(probe: &StoreProbe) -> Result<Vec<String>> {
    timeout(PATIENCE, probe.check()).await.unwrap_or_else(|_| {
        let seconds = PATIENCE.as_secs();
        Err(Error::new(ErrorKind::Unavailable, format!("the store has not answered within {seconds} s")))
    })
}

fn answer_to(access: &Access, checked: Result<Vec<String>>) -> CheckAnswer {
    let error = match checked {
        Ok(degraded) if degraded.is_empty() => return (StatusCode::OK, json!({"status": "ready"})),
        Ok(degraded) => return (StatusCode::OK, json!({"status": "ready", "degraded": degraded})),
        Err(error) => error,
    };
    let kind = error.kind().as_str();
    tracing::warn!(kind, %error, "not ready");
    // Everybody may ask, so the answer does not show where the store is.
    let why = match access {
        Access::Open => json!({"kind": kind, "message": error.public_message()}),
        Access::Login(_) => json!({"kind": kind}),
    };
    (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "unavailable", "store": why}))
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use serde_json::json;

    use super::answer_to;
    use crate::access::Access;

    #[test]
    fn a_store_that_answers_is_ready_and_says_what_does_not_work() {
        let (status, body) = answer_to(&Access::Open, Ok(vec!["1 of 8 connections".to_owned()]));
        assert_eq!((status, body), (StatusCode::OK, json!({"status": "ready", "degraded": ["1 of 8 connections"]})));
    }
}
