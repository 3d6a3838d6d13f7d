//! Request ids in logs: the client's id, or else an id of our own.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderName, HeaderValue};
use uuid::Uuid;

/// The header of a request's id, which the answer repeats.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The maximum length of an id from a client, in bytes.
const MOST_BYTES: usize = 128;

/// Makes ids that are unique across requests and servers.
#[derive(Debug)]
pub(super) struct RequestIds {
    server: u32,
    next: AtomicU64,
}

impl RequestIds {
    pub(super) fn new() -> Self {
        Self { server: Uuid::new_v4().as_fields().0, next: AtomicU64::new(1) }
    }

    /// Returns the id of a request with this header.
    pub(super) fn of(&self, said: Option<&HeaderValue>) -> HeaderValue {
        let said = said.filter(|said| is_plain(said.as_bytes()));
        said.cloned().unwrap_or_else(|| {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let id = format!("{:08x}-{number:x}", self.server);
            // Our own ids consist of digits and a dash, which a header can hold.
            HeaderValue::try_from(id).unwrap_or_else(|_| HeaderValue::from_static("-"))
        })
    }
}

/// Returns whether an id can be logged without escapes.
fn is_plain(id: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    !id.is_empty() && id.len() <= MOST_BYTES && id.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_the_client_is_kept_where_it_is_plain() {
        let ids = RequestIds::new();
        let plain = HeaderValue::from_static("req_1.a:b-2");
        assert_eq!(ids.of(Some(&plain)), plain);
        let long = HeaderValue::try_from("a".repeat(129)).ok();
        let strange = [Some(HeaderValue::from_static("a b")), Some(HeaderValue::from_static("")), long, None];
        let made: std::collections::HashSet<_> = strange.iter().map(|said| ids.of(said.as_ref())).collect();
        assert_eq!(made.len(), strange.len());
        assert!(made.iter().all(|id| is_plain(id.as_bytes())));
    }
}
