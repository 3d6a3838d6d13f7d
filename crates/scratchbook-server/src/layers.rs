//! What is around every route: what each request goes through, and each answer on its way back.

use std::any::Any;
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware};
use tower_http::catch_panic::CatchPanicLayer;

use crate::guard::{self, Guard};
use crate::operations::{self, Observer};
use crate::served::Served;
use crate::{access, headers, limits, listen};

/// The routes with all of it around them.
pub(crate) fn around(routes: Router<Arc<Served>>, served: &Arc<Served>, guard: Guard) -> Router {
    // From the inside to the outside: what a request comes to last is said first.
    routes
        // Bodies have the limit of `read_whole`, and no other.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(Arc::clone(served), limits::answer_in_time))
        .layer(middleware::from_fn_with_state(Arc::clone(served), limits::read_whole))
        .layer(middleware::from_fn_with_state(Arc::clone(served), access::identify))
        .layer(middleware::from_fn_with_state(Arc::new(guard), guard::check))
        .layer(middleware::from_fn_with_state(Arc::clone(served), listen::end_streams))
        .layer(middleware::from_fn(headers::mark))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn_with_state(Observer::new(), operations::observe))
        .with_state(Arc::clone(served))
}

/// What a client sees of a defect: that there is one. What it was is for the log.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("a handler panicked; the panic's own message says where");
    (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error").into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;
    use axum::routing::get;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    #[allow(clippy::panic)]
    async fn a_defect_is_not_told_of() {
        async fn defect() -> StatusCode {
            panic!("the secret")
        }
        let router: Router = Router::new().route("/", get(defect)).layer(CatchPanicLayer::custom(panicked));
        let response = router.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 500);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(&body[..], b"Internal Server Error");
    }
}
