//! Admission: callers take turns, so that the requests of one caller do not keep the others waiting.

use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use scratchbook::{Error, ErrorKind};
use tokio::time::timeout;

use super::ServerLimits;
use super::lane::{Full, Lane, Permit};
use super::time::begins_run;
use super::weight::{RequestWeight, Sizes};
use crate::access::{Account, Caller};
use crate::refusal::RefusedRequest;
use crate::scope::user_of_path;
use crate::sse;

/// The permits that requests need before they are processed. Heavy requests have a few separate permits, so that light
/// requests always find some. Writes may wait long for the store, so reads do not share their permits.
#[derive(Debug)]
pub(crate) struct Lanes {
    light_reads: Lane<Account>,
    light_writes: Lane<Account>,
    heavy_reads: Lane<Account>,
    heavy_writes: Lane<Account>,
    sizes: Sizes,
}

impl Lanes {
    pub(crate) fn new(limits: &ServerLimits) -> Self {
        let lane = |permits: usize, share: usize| Lane::new(permits, share, limits.waiting_requests);
        Self {
            light_reads: lane(limits.requests, limits.requests / 8),
            light_writes: lane(limits.requests, limits.requests / 8),
            heavy_reads: lane(limits.heavy_reads, limits.heavy_reads.div_ceil(2)),
            heavy_writes: lane(limits.heavy_writes, limits.heavy_writes.div_ceil(2)),
            sizes: Sizes::new(),
        }
    }

    fn of(&self, weight: RequestWeight, is_read: bool) -> &Lane<Account> {
        match weight {
            RequestWeight::HeavyWrite => &self.heavy_writes,
            RequestWeight::HeavyRead if is_read => &self.heavy_reads,
            RequestWeight::Light if is_read => &self.light_reads,
            // A write with a large answer takes its place for reading after its commit.
            RequestWeight::Light | RequestWeight::HeavyRead => &self.light_writes,
        }
    }
}

/// The place in which a write reads its answer. The write takes it after its commit: it may wait long for the commit,
/// and would keep others from reading meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct ReadAfterWrite {
    lanes: Arc<Lanes>,
    account: Account,
    weight: RequestWeight,
}

impl ReadAfterWrite {
    /// Waits for the place. A read whose last answer was small needs none.
    ///
    /// # Errors
    ///
    /// `Full` if no more requests may wait.
    pub(crate) async fn place(&self) -> Result<Option<Permit<Account>>, Full> {
        match self.weight {
            RequestWeight::HeavyRead => self.lanes.heavy_reads.acquire(&self.account).await.map(Some),
            RequestWeight::Light | RequestWeight::HeavyWrite => Ok(None),
        }
    }
}

/// Waits for a permit for the caller's account, and holds it until the head of the answer is ready. A request that
/// needs no login needs no permit. A request for a run holds its permit until the run begins.
pub(crate) async fn admit(
    State(lanes): State<Arc<Lanes>>,
    State(limits): State<Arc<ServerLimits>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(caller) = request.extensions().get::<Caller>() else {
        return next.run(request).await;
    };
    let account = caller.account(user_of_path(&request).as_deref());
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let body_bytes = request.body().size_hint().lower();
    let weighed = lanes.sizes.weigh(request.method(), route, request.uri(), body_bytes);
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    if !is_read {
        let read = ReadAfterWrite { lanes: Arc::clone(&lanes), account: account.clone(), weight: weighed.weight };
        request.extensions_mut().insert(read);
    }
    let permit = match timeout(limits.answer_time, lanes.of(weighed.weight, is_read).acquire(&account)).await {
        Ok(Ok(permit)) => permit,
        Ok(Err(full)) => return RefusedRequest::from(full_error(full)).retry_soon(),
        Err(_) => return RefusedRequest::from(late_error(limits.answer_time)).retry_soon(),
    };
    if begins_run(&request) {
        // Runs have their own limits, so the permit is dropped with the request, once the handler has read it.
        request.extensions_mut().insert(Arc::new(permit));
        return next.run(request).await;
    }
    let response = next.run(request).await;
    drop(permit);
    if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        lanes.sizes.remember(weighed, None);
    } else if response.status().is_success() && !sse::is_stream(&response) {
        lanes.sizes.remember(weighed, response.body().size_hint().exact());
    }
    response
}

fn full_error(full: Full) -> Error {
    match full {
        Full::OfAccount(waiting) => {
            let message = format!(
                "{waiting} of your requests wait already, as many as may; send more when some of them are answered"
            );
            Error::new(ErrorKind::ResourceExhausted, message)
        }
        Full::OfAll(waiting) => {
            let message = format!("{waiting} requests wait already, as many as may; try again later");
            Error::new(ErrorKind::Unavailable, message)
        }
    }
}

fn late_error(time: Duration) -> Error {
    let seconds = time.as_secs_f64();
    let message = format!("it was not this request's turn within {seconds} seconds; nothing was done, try again later");
    Error::new(ErrorKind::Unavailable, message)
}

#[cfg(test)]
mod tests {
    use std::future::{Future, ready};
    use std::pin::Pin;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    use axum::body::{Body, Bytes};
    use axum::http::header::RETRY_AFTER;
    use axum::routing::{get, post};
    use axum::{Router, middleware};
    use scratchbook::connect;
    use tokio::sync::Semaphore;
    use tower::ServiceExt;

    use super::*;
    use crate::Server;

    const SESSION: &str = "/apps/{app}/users/{user}/sessions/{session}";
    const STATE: &str = "/v1/apps/{app}/users/{user}/state";

    /// Handlers that record whose request they have begun, and then wait to be released.
    struct SlowHandlers {
        router: Router,
        lets: Arc<Semaphore>,
        begun: Arc<Mutex<Vec<String>>>,
    }

    type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

    impl SlowHandlers {
        async fn with(limits: ServerLimits) -> Self {
            let server = Server::builder(connect("memory:").await.unwrap()).limits(limits).build().unwrap();
            let (lets, begun) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(Vec::new())));
            let (free, seen) = (Arc::clone(&lets), Arc::clone(&begun));
            let slow = move |path: axum::extract::OriginalUri, body: Bytes| {
                let (free, seen) = (Arc::clone(&free), Arc::clone(&seen));
                async move {
                    seen.lock().unwrap().push(path.path().to_owned());
                    free.acquire().await.unwrap().forget();
                    body
                }
            };
            let router = Router::new()
                .route(SESSION, get(slow.clone()))
                .route(STATE, get(slow.clone()).patch(slow.clone()))
                .route("/run", post(slow))
                .layer(middleware::from_fn_with_state(server.app_state(), admit))
                .layer(middleware::from_fn(|mut request: Request, next: Next| {
                    request.extensions_mut().insert(Caller::anyone());
                    next.run(request)
                }));
            Self { router, lets, begun }
        }

        /// Sends a request and lets it proceed as far as it can.
        fn ask(&self, method: &str, path: &str, body: impl Into<Body>) -> Answering {
            let request = Request::builder().method(method).uri(path).body(body.into()).unwrap();
            let router = self.router.clone();
            let mut answer: Answering = Box::pin(async move { router.oneshot(request).await.unwrap() });
            match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => Box::pin(ready(answer)),
                Poll::Pending => answer,
            }
        }

        fn read(&self, path: &str) -> Answering {
            self.ask("GET", path, Body::empty())
        }

        fn begun(&self) -> Vec<String> {
            self.begun.lock().unwrap().clone()
        }
    }

    #[tokio::test]
    async fn a_second_callers_request_is_next_while_the_first_has_a_hundred_waiting() {
        let slow = SlowHandlers::with(ServerLimits::default().with_requests(1)).await;
        let mut busy: Vec<_> = (0..100).map(|_| tokio::spawn(slow.read("/v1/apps/a/users/busy/state"))).collect();
        let other = slow.read("/v1/apps/a/users/other/state");
        assert_eq!(slow.begun().len(), 1);
        let other = tokio::spawn(other);
        slow.lets.add_permits(3);
        assert_eq!(other.await.unwrap().status(), 200);
        assert!(slow.begun().len() <= 4, "{:?}", slow.begun());
        slow.lets.add_permits(100);
        for busy in busy.drain(..) {
            assert_eq!(busy.await.unwrap().status(), 200);
        }
    }

    #[tokio::test]
    async fn large_reads_and_writes_leave_small_ones_their_permits() {
        let slow = SlowHandlers::with(ServerLimits::default().with_heavy_reads(1)).await;
        let large = vec![b'x'; 256 << 10];
        let _large: Vec<_> = (0..16)
            .flat_map(|_| {
                let write = slow.ask("PATCH", "/v1/apps/a/users/u/state", large.clone());
                [slow.read("/apps/a/users/u/sessions/large"), write]
            })
            .collect();
        assert_eq!(slow.begun(), ["/v1/apps/a/users/u/state", "/apps/a/users/u/sessions/large"]);
        let small = [slow.ask("PATCH", "/v1/apps/a/users/v/state", "{}"), slow.read("/v1/apps/a/users/v/state")];
        assert_eq!(slow.begun().len(), 4, "{:?}", slow.begun());
        drop(small);
    }

    #[tokio::test]
    async fn a_session_that_was_seen_to_be_small_is_read_beside_large_ones() {
        let slow = SlowHandlers::with(ServerLimits::default().with_heavy_reads(1)).await;
        slow.lets.add_permits(1);
        assert_eq!(slow.read("/apps/a/users/v/sessions/small").await.status(), 200);
        let _large: Vec<_> = (0..16).map(|_| slow.read("/apps/a/users/u/sessions/large")).collect();
        let _small = slow.read("/apps/a/users/v/sessions/small");
        assert_eq!(slow.begun().iter().filter(|path| path.ends_with("small")).count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_whose_turn_does_not_come_answers_503_and_is_not_done() {
        let slow = SlowHandlers::with(ServerLimits::default().with_requests(1)).await;
        let _working = slow.read("/v1/apps/a/users/u/state");
        let late = slow.read("/v1/apps/a/users/u/state").await;
        assert_eq!((late.status().as_u16(), late.headers()[RETRY_AFTER].to_str().unwrap()), (503, "1"));
        assert_eq!(slow.begun().len(), 1);
    }

    #[tokio::test]
    async fn a_caller_whose_places_are_full_answers_429_while_others_wait_in_theirs() {
        let slow = SlowHandlers::with(ServerLimits::default().with_requests(1).with_waiting_requests(8)).await;
        let _waiting: Vec<_> = (0..3).map(|_| tokio::spawn(slow.read("/v1/apps/a/users/u/state"))).collect();
        let refused = slow.read("/v1/apps/a/users/u/state").await;
        assert_eq!((refused.status().as_u16(), refused.headers()[RETRY_AFTER].to_str().unwrap()), (429, "1"));
        let other = tokio::spawn(slow.read("/v1/apps/a/users/v/state"));
        slow.lets.add_permits(4);
        assert_eq!(other.await.unwrap().status(), 200);
    }

    #[tokio::test]
    async fn a_run_has_its_permit_until_it_begins() {
        let slow = SlowHandlers::with(ServerLimits::default().with_requests(1)).await;
        let _run = slow.ask("POST", "/run", "{}");
        let _read = slow.read("/v1/apps/a/users/u/state");
        assert_eq!(slow.begun(), ["/run", "/v1/apps/a/users/u/state"]);
    }

    #[tokio::test]
    async fn a_client_that_goes_leaves_its_place_and_its_permit() {
        let slow = SlowHandlers::with(ServerLimits::default().with_requests(1)).await;
        let (working, waiting) = (slow.read("/v1/apps/a/users/u/state"), slow.read("/v1/apps/a/users/v/state"));
        drop(working);
        drop(waiting);
        let _read = slow.read("/v1/apps/a/users/w/state");
        assert_eq!(slow.begun().len(), 2);
    }
}
