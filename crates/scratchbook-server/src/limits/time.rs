//! How long an answer may take.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use scratchbook::{Error, ErrorKind};
use tokio::time::timeout;

use crate::refusal;
use crate::served::Served;

/// The parts of routes below which agents run, as long as they like.
const RUNS: [&str; 3] = ["run", "run_sse", "runs"];

/// Waits for the head of an answer, not longer than it may take. What follows it is not watched: streams go on.
pub(crate) async fn answer_in_time(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    if route.is_some_and(|route| route.as_str().split('/').any(|part| RUNS.contains(&part))) {
        return next.run(request).await;
    }
    let path = request.uri().path().to_owned();
    let time = served.limits.answer_time;
    match timeout(time, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let seconds = time.as_secs_f64();
            let message = format!("this took more than {seconds} seconds; look whether it was done, and try again");
            refusal::of(&path, Error::new(ErrorKind::Unavailable, message))
        }
    }
}
