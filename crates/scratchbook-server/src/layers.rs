//! What is around every route: what each request goes through, and each answer on its way back.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::Next;
use axum::response::Response;
use axum::{Router, middleware};
use futures_util::FutureExt;
use scratchbook::Error;

use crate::guard::{self, Guard};
use crate::operations::{self, Observer};
use crate::served::Served;
use crate::{access, answers, headers, limits, listen, refusal, surfaces};

/// The routes with all of it around them.
pub(crate) fn around(routes: Router<Arc<Served>>, served: &Arc<Served>, guard: Guard) -> Router {
    // From the inside to the outside: what a request comes to last is said first.
    routes
        // Bodies have the limit of `read_whole`, and no other.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(Arc::clone(served), answers::check))
        .layer(middleware::from_fn_with_state(Arc::clone(served), limits::answer_in_time))
        .layer(middleware::from_fn_with_state(Arc::clone(served), limits::leave_workers))
        .layer(middleware::from_fn_with_state(Arc::clone(served), limits::admit))
        .layer(middleware::from_fn_with_state(Arc::clone(served), limits::read_whole))
        .layer(middleware::from_fn_with_state(Arc::clone(served), access::identify))
        .layer(middleware::from_fn_with_state(Arc::clone(served), surfaces::check))
        .layer(middleware::from_fn_with_state(Arc::new(guard), guard::check))
        .layer(middleware::from_fn_with_state(Arc::clone(served), listen::end_streams))
        .layer(middleware::from_fn(headers::mark))
        .layer(middleware::from_fn(catch_panics))
        .layer(middleware::from_fn_with_state(Observer::new(), operations::observe))
        .with_state(Arc::clone(served))
}

/// What a client sees of a defect: that there is one, in the form of the surface that was asked. What it was is for the
/// log.
async fn catch_panics(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    AssertUnwindSafe(next.run(request))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| refusal::of(&path, Error::internal("a handler panicked; the log says where")))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::StatusCode;
    use axum::routing::get;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    #[allow(clippy::panic)]
    async fn a_defect_is_not_told_of_and_answered_in_the_form_of_the_surface() {
        async fn defect() -> StatusCode {
            panic!("the secret")
        }
        let routes = Router::new().route("/apps", get(defect)).route("/v1/x", get(defect));
        let routes = routes.route("/v1/projects/x", get(defect)).route("/v1beta1/x", get(defect));
        let router: Router = routes.layer(middleware::from_fn(catch_panics));
        let google = r#"{"error":{"code":500,"message":"Internal error encountered.","status":"INTERNAL"}}"#;
        for (path, expected) in [
            ("/apps", "Internal Server Error"),
            ("/v1/x", r#"{"error":{"kind":"internal","message":"a handler panicked; the log says where"}}"#),
            ("/v1/projects/x", google),
            ("/v1beta1/x", google),
        ] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), 500);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(std::str::from_utf8(&body).unwrap(), expected, "{path}");
        }
    }
}
