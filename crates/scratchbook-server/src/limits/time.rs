//! How long an answer may take.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use scratchbook::environment::Deadline;
use scratchbook::{Error, ErrorKind};
use tokio::time::timeout;

use super::ServerLimits;
use crate::refusal::RefusedRequest;

/// Returns whether a request begins a run. The head of the answer to such a request may take as long as the agent
/// needs. If an earlier run with the same id has to end first, it may also take the time of that run.
pub(crate) fn begins_run(request: &Request) -> bool {
    let route = request.extensions().get::<MatchedPath>();
    let last = route.and_then(|route| route.as_str().rsplit('/').next());
    request.method() == Method::POST && matches!(last, Some("run" | "run_sse" | "runs"))
}

/// Waits for the head of an answer within the time limit. The body of an answer has no time limit, because streams may
/// continue for long.
pub(crate) async fn answer_in_time(State(limits): State<Arc<ServerLimits>>, request: Request, next: Next) -> Response {
    if begins_run(&request) {
        return next.run(request).await;
    }
    let time = limits.answer_time;
    // Work that never waits looks at the deadline itself.
    match timeout(time, Deadline::after(time).scope(next.run(request))).await {
        Ok(response) => response,
        Err(_) => {
            let seconds = time.as_secs_f64();
            let message = format!("this took more than {seconds} seconds; look whether it was done, and try again");
            RefusedRequest::from(Error::new(ErrorKind::Unavailable, message)).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::body::Body;
    use axum::routing::{get, post};
    use axum::{Router, middleware};
    use scratchbook::connect;
    use tokio::time::sleep;
    use tower::ServiceExt;

    use super::*;
    use crate::{Server, ServerLimits};

    #[tokio::test]
    async fn only_what_begins_runs_may_take_its_time() {
        let limits = ServerLimits::default().with_answer_time(Duration::from_millis(20));
        let server = Server::builder(connect("memory:").await.unwrap()).limits(limits).build().unwrap();
        let slow = || sleep(Duration::from_millis(200));
        let router = Router::new()
            .route("/slow", get(slow))
            .route("/run", post(slow).get(slow))
            .nest(
                "/v1",
                Router::new()
                    .route("/sessions/{session}/runs", get(slow).post(slow))
                    .route("/sessions/{session}/runs/{run}", get(slow).delete(slow))
                    .route("/users/{user}", post(slow)),
            )
            .layer(middleware::from_fn_with_state(server.app_state(), answer_in_time));
        for (method, path, status) in [
            (Method::GET, "/slow", 503),
            (Method::POST, "/run", 200),
            (Method::GET, "/run", 503),
            (Method::POST, "/v1/sessions/s/runs", 200),
            (Method::GET, "/v1/sessions/s/runs", 503),
            (Method::GET, "/v1/sessions/runs/runs/r-1", 503),
            (Method::DELETE, "/v1/sessions/runs/runs/r-1", 503),
            (Method::POST, "/v1/users/run", 503),
        ] {
            let request = Request::builder().method(&method).uri(path).body(Body::empty()).unwrap();
            assert_eq!(router.clone().oneshot(request).await.unwrap().status(), status, "{method} {path}");
        }
    }
}
