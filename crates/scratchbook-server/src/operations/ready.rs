//! `/health/ready`: whether requests can be served, which takes the store.
//!
//! Everybody may ask, as often as they like: the store is looked at once a second at most, for all who ask meanwhile.

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
use crate::served::Served;

/// Whoever asks, asks again soon: a store that takes longer is not ready.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long what was seen is good enough.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What was seen of the store last, or is looked at now.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    last: Mutex<Option<Look>>,
}

/// One look.
#[derive(Clone, Debug)]
struct Look {
    begun: Instant,
    /// `None` as long as it goes on.
    seen: watch::Receiver<Option<Seen>>,
}

/// What is answered.
type Seen = (StatusCode, Value);

pub(super) async fn ready(State(served): State<Arc<Served>>) -> (StatusCode, Json<Value>) {
    let mut look = look(&served);
    // It ends with an answer, but for a defect.
    let seen = look.seen.wait_for(Option::is_some).await.ok().and_then(|seen| seen.clone());
    let (status, body) = seen.unwrap_or_else(|| (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "unavailable"})));
    (status, Json(body))
}

/// The look that goes on, or was taken within the last second; or a new one. It is a task of its own: it goes on when
/// the one who asked first is gone.
fn look(served: &Arc<Served>) -> Look {
    let mut last = served.readiness.last.lock().unwrap_or_else(PoisonError::into_inner);
    let is_good = |look: &&Look| {
        // Under way, or not long ago. One that broke off is neither.
        let (is_over, is_left) = (look.seen.borrow().is_some(), look.seen.has_changed().is_err());
        (!is_over && !is_left) || (is_over && look.begun.elapsed() < LOOK_EVERY)
    };
    if let Some(look) = last.as_ref().filter(is_good) {
        return look.clone();
    }
    let (seen, receiver) = watch::channel(None);
    let look = Look { begun: Instant::now(), seen: receiver };
    *last = Some(look.clone());
    drop(last);
    let served = Arc::clone(served);
    tokio::spawn(async move { seen.send_replace(Some(answer(&served, check(&served).await))) });
    look
}

/// Whether the store can be worked with.
///
/// # Errors
///
/// What is wrong with it.
async fn check(served: &Served) -> Result<()> {
    timeout(PATIENCE, served.look_at_store()).await.unwrap_or_else(|_| {
        let seconds = PATIENCE.as_secs();
        Err(Error::new(ErrorKind::Unavailable, format!("the store has not answered within {seconds} s")))
    })
}

fn answer(served: &Served, checked: Result<()>) -> Seen {
    let Err(error) = checked else { return (StatusCode::OK, json!({"status": "ready"})) };
    let kind = error.kind().as_str();
    tracing::warn!(kind, %error, "not ready");
    // Everybody may ask; where the store is, is not for everybody.
    let why = match served.access {
        Access::Open => json!({"kind": kind, "message": error.public_message()}),
        Access::Login(_) => json!({"kind": kind}),
    };
    (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "unavailable", "store": why}))
}
