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

/// Whether a request's answer takes as long as an agent does.
pub(super) fn runs_agents(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    route.is_some_and(|route| route.as_str().split('/').any(|part| RUNS.contains(&part)))
}

/// Waits for the head of an answer, not longer than it may take. What follows it is not watched: streams go on.
pub(crate) async fn answer_in_time(State(served): State<Arc<Served>>, request: Request, next: Next) -> Response {
    if runs_agents(&request) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use axum::routing::get;
    use axum::{Router, middleware};
    use scratchbook::connect;
    use tokio::time::sleep;
    use tower::ServiceExt;

    use super::*;
    use crate::{Server, ServerLimits};

    #[tokio::test]
    async fn only_what_runs_agents_may_take_its_time() {
        let limits = ServerLimits::default().with_answer_time(Duration::from_millis(20));
        let server = Server::builder(connect("memory:").await.unwrap()).limits(limits).build().unwrap();
        let slow = || sleep(Duration::from_millis(200));
        let router = Router::new()
            .route("/slow", get(slow))
            .route("/run", get(slow))
            .nest("/v1", Router::new().route("/sessions/{session}/runs/{run}", get(slow)).route("/slow", get(slow)))
            .layer(middleware::from_fn_with_state(server.served(), answer_in_time));
        for (path, status) in [("/slow", 503), ("/v1/slow", 503), ("/run", 200), ("/v1/sessions/runs/runs/r-1", 200)] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            assert_eq!(router.clone().oneshot(request).await.unwrap().status(), status, "{path}");
        }
    }
}
