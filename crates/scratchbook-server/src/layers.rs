//! The layers around every route.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::Next;
use axum::response::Response;
use axum::{Router, middleware};
use futures_util::FutureExt;
use scratchbook::Error;

use crate::app_state::AppState;
use crate::guard::{self, Guard};
use crate::operations::{self, Observer};
use crate::surface::{self, Surface};
use crate::url_prefix::{self, UrlPrefix};
use crate::{access, answers, bodies, browser, headers, inspector, limits, listen, vertex, wording};

/// Wraps the routes in all layers.
pub(crate) fn around(routes: Router<AppState>, app_state: &AppState, guard: Guard, prefix: &UrlPrefix) -> Router {
    let state = || app_state.clone();
    // The layers are added from the inside to the outside: a request reaches the first one last.
    routes
        // Only `read_whole` limits bodies.
        .layer(DefaultBodyLimit::disable())
        .layer(middleware::from_fn_with_state(state(), answers::check))
        .layer(middleware::from_fn_with_state(state(), limits::answer_in_time))
        .layer(middleware::from_fn_with_state(state(), bodies::leave_workers))
        .layer(middleware::from_fn_with_state(state(), limits::admit))
        .layer(middleware::from_fn_with_state(state(), bodies::read_whole))
        .layer(middleware::from_fn_with_state(state(), limits::follow_streams))
        .layer(middleware::from_fn_with_state(state(), listen::count_login))
        .layer(middleware::from_fn(access::require_caller))
        .layer(middleware::from_fn(browser::offer_login))
        .layer(middleware::from_fn_with_state(state(), limits::limit_rate))
        .layer(middleware::from_fn_with_state(state(), access::identify))
        .layer(middleware::from_fn(browser::read_cookie))
        .layer(middleware::from_fn(vertex::take_api_key))
        .layer(middleware::from_fn_with_state(state(), surface::check))
        .layer(middleware::from_fn_with_state(Arc::new(guard), guard::check))
        .layer(middleware::from_fn_with_state(state(), listen::end_streams))
        .layer(middleware::from_fn(wording::word_refusals))
        .layer(middleware::from_fn(headers::mark))
        .layer(middleware::from_fn(catch_panics))
        .layer(middleware::from_fn_with_state(prefix.clone(), url_prefix::make_relative))
        .layer(middleware::from_fn_with_state(Observer::new(), operations::observe))
        .with_state(app_state.clone())
}

/// If a handler panics, answers with an error in the form of the request's surface. The panic itself is logged.
async fn catch_panics(request: Request, next: Next) -> Response {
    let surface = Surface::of(request.uri().path());
    let is_page = surface::is_of_inspector(request.uri().path());
    AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|_| {
        let error = Error::internal("a handler panicked; the log says where");
        if is_page { inspector::refusal(None, &error) } else { wording::error_of(surface, error) }
    })
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
