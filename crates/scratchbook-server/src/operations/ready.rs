//! `/health/ready`: whether the server and its store can serve requests.
//!
//! The store is checked at most once a second, and all requests in the meantime share this check. So everybody may send
//! this request as often as they like.

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
use crate::store_probe::StoreProbe;

/// How long the store may take. A slower store counts as not ready; clients ask again soon.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the answer of a check is reused.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Whether the store can be used. Clones share the last check.
#[derive(Clone, Debug)]
pub(crate) struct Readiness {
    probe: StoreProbe,
    access: Access,
    last: Arc<Mutex<Option<ReadinessCheck>>>,
}

impl Readiness {
    pub(crate) fn new(probe: StoreProbe, access: Access) -> Self {
        Self { probe, access, last: Arc::default() }
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
    (status, Json(body))
}

/// Returns the check that is in progress, or that began within the last second; otherwise starts a new check. A check
/// is a separate task, so that it continues if the client that started it disconnects.
fn last_check(readiness: &Readiness) -> ReadinessCheck {
    let mut last = readiness.last.lock().unwrap_or_else(PoisonError::into_inner);
    let is_recent = |check: &&ReadinessCheck| {
        // A check whose task was aborted is neither under way nor over.
        let (is_over, is_left) = (check.answer.borrow().is_some(), check.answer.has_changed().is_err());
        (!is_over && !is_left) || (is_over && check.begun.elapsed() < CHECK_EVERY)
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
