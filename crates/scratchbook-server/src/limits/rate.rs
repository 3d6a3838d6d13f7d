//! The rate limit: how many requests a caller may send.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::RETRY_AFTER;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use scratchbook::{Error, ErrorKind};

use super::Network;
use crate::access::{Caller, Identity, LoginName};
use crate::refusal::RefusedRequest;

/// If more callers than this are remembered, the callers with their full allowance are forgotten.
const SWEEP_FROM: usize = 1_024;

/// A rate of requests for each token or JWT subject, or for each address if callers do not log in.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    per_second: NonZeroU32,
    burst: NonZeroU32,
}

impl RateLimit {
    /// Allows this many requests a second, and as many at once.
    #[must_use]
    pub fn per_second(requests: NonZeroU32) -> Self {
        Self { per_second: requests, burst: requests }
    }

    /// Allows this many requests at once, after a pause.
    #[must_use]
    pub fn with_burst(self, requests: NonZeroU32) -> Self {
        Self { burst: requests, ..self }
    }
}

/// The requests that callers have sent lately.
#[derive(Debug)]
pub(crate) struct Rates {
    limit: RateLimit,
    callers: Mutex<Callers>,
}

#[derive(Debug)]
struct Callers {
    /// The time at which each caller has its full allowance again. A time in the past has no effect.
    whole_at: HashMap<RateKey, Instant>,
    sweep_at: usize,
}

/// The key under which requests are counted together: a login or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RateKey {
    Login(LoginName),
    Address(Option<Network>),
}

impl Rates {
    pub(crate) fn new(limit: RateLimit) -> Self {
        Self { limit, callers: Mutex::new(Callers { whole_at: HashMap::new(), sweep_at: SWEEP_FROM }) }
    }

    /// Counts a request. Returns the refusal if the request exceeds the rate.
    pub(crate) fn count(&self, caller: Option<&Caller>, request: &Request) -> Option<Response> {
        let wait = self.take(RateKey::of(caller, request), Instant::now()).err()?;
        let seconds = wait.as_secs_f64().ceil();
        let message = format!("too many requests; the next is taken in {seconds} seconds");
        let mut response = RefusedRequest::from(Error::new(ErrorKind::ResourceExhausted, message)).into_response();
        response.headers_mut().insert(RETRY_AFTER, (seconds as u64).into());
        Some(response)
    }

    /// Uses one request of a caller's allowance. If none is left, the error says how long to wait.
    fn take(&self, key: RateKey, now: Instant) -> Result<(), Duration> {
        let one = Duration::from_secs(1) / self.limit.per_second.get();
        let all = one * self.limit.burst.get();
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if callers.whole_at.len() >= callers.sweep_at {
            callers.whole_at.retain(|_, whole_at| *whole_at > now);
            callers.sweep_at = SWEEP_FROM.max(2 * callers.whole_at.len());
        }
        let whole_at = callers.whole_at.entry(key).or_insert(now);
        let next = (*whole_at).max(now) + one;
        let owed = next.duration_since(now);
        if owed > all {
            return Err(owed - all);
        }
        *whole_at = next;
        Ok(())
    }
}

impl RateKey {
    fn of(caller: Option<&Caller>, request: &Request) -> Self {
        if let Some(login @ (LoginName::Token(_) | LoginName::Subject(_))) = caller.map(Caller::login) {
            return Self::Login(login.clone());
        }
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        Self::Address(peer.map(|ConnectInfo(peer)| Network::of_client(peer.ip())))
    }
}

/// Refuses a request beyond the rate of its caller. Requests that need no login are not counted here.
pub(crate) async fn limit_rate(State(rates): State<Option<Arc<Rates>>>, request: Request, next: Next) -> Response {
    let identity = request.extensions().get::<Identity>();
    let refused = rates.zip(identity).and_then(|(rates, identity)| rates.count(identity.caller(), &request));
    match refused {
        Some(refused) => refused,
        None => next.run(request).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> RateKey {
        RateKey::Address(Some(Network::of_client([10, 0, 0, n].into())))
    }

    #[test]
    fn a_caller_has_a_burst_and_then_its_rate() {
        let two = NonZeroU32::new(2).unwrap();
        let rates = Rates::new(RateLimit::per_second(two).with_burst(NonZeroU32::new(3).unwrap()));
        let start = Instant::now();
        for _ in 0..3 {
            assert!(rates.take(key(1), start).is_ok());
        }
        assert_eq!(rates.take(key(1), start), Err(Duration::from_millis(500)));
        assert!(rates.take(key(2), start).is_ok(), "another caller has requests of its own");
        let later = start + Duration::from_millis(500);
        assert!(rates.take(key(1), later).is_ok());
        assert!(rates.take(key(1), later).is_err());
    }

    #[test]
    fn a_token_and_a_jwt_of_one_name_are_counted_apart() {
        let rates = Rates::new(RateLimit::per_second(NonZeroU32::MIN));
        let start = Instant::now();
        for login in [LoginName::Token("ann".into()), LoginName::Subject("ann".into())] {
            assert!(rates.take(RateKey::Login(login), start).is_ok());
        }
    }

    #[test]
    fn who_has_all_requests_again_is_forgotten() {
        let rates = Rates::new(RateLimit::per_second(NonZeroU32::MIN));
        let start = Instant::now();
        for n in 0..SWEEP_FROM {
            let _ = rates.take(RateKey::Login(LoginName::Token(n.to_string().into())), start);
        }
        let _ = rates.take(key(1), start + Duration::from_secs(2));
        assert_eq!(rates.callers.lock().unwrap().whole_at.len(), 1);
    }
}
