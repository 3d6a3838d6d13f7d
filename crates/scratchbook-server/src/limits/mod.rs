//! Limits of sizes, numbers and times: for each request, connection and caller.

mod admit;
mod follow;
mod lane;
mod network;
mod rate;
mod streams;
mod time;
mod weight;

use std::thread::available_parallelism;
use std::time::Duration;

pub(crate) use admit::{Lanes, admit};
pub(crate) use follow::follow_streams;
pub use network::Network;
pub use rate::RateLimit;
pub(crate) use rate::{Rates, limit_rate};
pub(crate) use streams::Streams;
pub(crate) use time::{answer_in_time, begins_run};

/// The limits of a server. The defaults are made for a server that strangers reach.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The longest body of a request, in bytes: 36 MiB, so that an event of 16 MiB fits twice, as Google's clients send
    /// it. A longer one answers 413.
    pub body_bytes: usize,
    /// The most events in a body, that a session begins with: 20,000. More answer 413.
    pub body_events: usize,
    /// The most parts of each content in a body: 10,000. More answer 413.
    pub body_parts: usize,
    /// The most operations in a body: 100,000. More answer 413.
    pub body_operations: usize,
    /// The most bytes of memory that all bodies take at a time, with their parsed forms: 512 MiB. A body that would
    /// take more by itself answers 413; a body for which there is no room within [`body_wait`](Self::body_wait) answer
    /// 503 with `Retry-After`. A token has no more than half of it.
    pub body_memory: usize,
    /// How long a body waits for room, and a large one for its turn: 5 seconds.
    pub body_wait: Duration,
    /// How long a body may take to come: 60 seconds. A slower one answers 408.
    pub body_time: Duration,
    /// The most bytes of a request's line and headers together: 64 KiB. More answer 431.
    pub header_bytes: usize,
    /// The most headers of a request: 100. More answer 431.
    pub headers: usize,
    /// How long the line and headers of the first request on a connection may take to come: 5 seconds. Then it is closed.
    pub first_header_time: Duration,
    /// How long those of the next request may take, from the end of the request before; so also how long a connection is
    /// kept for another request: 30 seconds. Then it is closed.
    pub header_time: Duration,
    /// The most bytes of an answer: 32 MiB. A longer one answers 413; pages are made smaller instead. All answers in
    /// progress have eight times this together; beyond it, requests answer 503.
    pub answer_bytes: usize,
    /// How long an answer may take to begin, unless the request begins a run: 60 seconds. A slower one answers 503.
    pub answer_time: Duration,
    /// How long a client may read nothing of what is sent to it: 60 seconds. Then its connection is closed.
    pub stall_time: Duration,
    /// The most connections at a time: 8,192. One more ends the connection that has waited longest for a request. If
    /// there is none, it waits a second for a place and then answers 503. Streams have three quarters of them.
    pub connections: usize,
    /// The most requests that are worked on at a time: 128. More wait, and callers take turns: if there are others, one
    /// caller has an eighth of them. A caller is a login together with the user that it acts for. A request counts from
    /// the end of its body to the head of its answer; a run, until it begins.
    pub requests: usize,
    /// The most requests that wait: 4,096, of which one caller has a quarter. More answer 503, or 429.
    pub waiting_requests: usize,
    /// The most heavy reads at a time: half as many as there are cores. Heavy reads are those of a whole session or
    /// list, unless its last answer was below 256 KiB; searches of Vertex's lists; and verifications.
    pub heavy_reads: usize,
    /// The most heavy writes at a time: 1. Heavy writes are requests of 256 KiB and more, forks, rewinds, and removals.
    pub heavy_writes: usize,
    /// The most connections of an IPv4 address or an IPv6 network on which nobody has logged in yet: 64. One more ends
    /// the oldest of them. They are not counted if nobody has to log in, nor from this machine or from proxies.
    pub connections_before_login: usize,
    /// Proxies, whose connections are those of many clients. Their headers about clients are ignored.
    pub trusted_proxies: Vec<Network>,
    /// The most streams that a login may follow for one user at a time: 256. More answer 429. If nobody has to log in,
    /// there is no such limit.
    pub streams: usize,
    /// How many requests a caller may send; unlimited by default. More answer 429.
    pub rate: Option<RateLimit>,
    /// How long a shutdown waits for runs and requests under way: 30 seconds.
    pub shutdown_time: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes: 36 << 20,
            body_events: 20_000,
            body_parts: 10_000,
            body_operations: 100_000,
            body_memory: 512 << 20,
            body_wait: Duration::from_secs(5),
            body_time: Duration::from_secs(60),
            header_bytes: 64 << 10,
            headers: 100,
            first_header_time: Duration::from_secs(5),
            header_time: Duration::from_secs(30),
            answer_bytes: 32 << 20,
            answer_time: Duration::from_secs(60),
            stall_time: Duration::from_secs(60),
            connections: 8_192,
            requests: 128,
            waiting_requests: 4_096,
            heavy_reads: available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1)),
            heavy_writes: 1,
            connections_before_login: 64,
            trusted_proxies: Vec::new(),
            streams: 256,
            rate: None,
            shutdown_time: Duration::from_secs(30),
        }
    }
}

impl ServerLimits {
    /// The longest body of a request, in bytes.
    #[must_use]
    pub fn with_body_bytes(self, body_bytes: usize) -> Self {
        Self { body_bytes, ..self }
    }

    /// The most events in a body.
    #[must_use]
    pub fn with_body_events(self, body_events: usize) -> Self {
        Self { body_events, ..self }
    }

    /// The most parts of each content in a body.
    #[must_use]
    pub fn with_body_parts(self, body_parts: usize) -> Self {
        Self { body_parts, ..self }
    }

    /// The most operations in a body.
    #[must_use]
    pub fn with_body_operations(self, body_operations: usize) -> Self {
        Self { body_operations, ..self }
    }

    /// The most bytes of memory that bodies take, all of them at a time.
    #[must_use]
    pub fn with_body_memory(self, body_memory: usize) -> Self {
        Self { body_memory, ..self }
    }

    /// How long a body waits for room.
    #[must_use]
    pub fn with_body_wait(self, body_wait: Duration) -> Self {
        Self { body_wait, ..self }
    }

    /// How long a body may take to come.
    #[must_use]
    pub fn with_body_time(self, body_time: Duration) -> Self {
        Self { body_time, ..self }
    }

    /// The most bytes of a request's line and headers together; 8 KiB at least are taken.
    #[must_use]
    pub fn with_header_bytes(self, header_bytes: usize) -> Self {
        Self { header_bytes, ..self }
    }

    /// The most headers of a request.
    #[must_use]
    pub fn with_headers(self, headers: usize) -> Self {
        Self { headers, ..self }
    }

    /// How long the line and headers of a connection's first request may take to come.
    #[must_use]
    pub fn with_first_header_time(self, first_header_time: Duration) -> Self {
        Self { first_header_time, ..self }
    }

    /// How long the line and headers of a later request may take to come.
    #[must_use]
    pub fn with_header_time(self, header_time: Duration) -> Self {
        Self { header_time, ..self }
    }

    /// The most bytes of an answer; 64 KiB at least are taken.
    #[must_use]
    pub fn with_answer_bytes(self, answer_bytes: usize) -> Self {
        Self { answer_bytes: answer_bytes.max(64 << 10), ..self }
    }

    /// How long an answer may take to begin, unless the request begins a run.
    #[must_use]
    pub fn with_answer_time(self, answer_time: Duration) -> Self {
        Self { answer_time, ..self }
    }

    /// How long a client may read nothing of what is sent to it.
    #[must_use]
    pub fn with_stall_time(self, stall_time: Duration) -> Self {
        Self { stall_time, ..self }
    }

    /// The most connections at a time.
    #[must_use]
    pub fn with_connections(self, connections: usize) -> Self {
        Self { connections, ..self }
    }

    /// The most requests that are worked on at a time; at least 1.
    #[must_use]
    pub fn with_requests(self, requests: usize) -> Self {
        Self { requests, ..self }
    }

    /// The most requests that wait.
    #[must_use]
    pub fn with_waiting_requests(self, waiting_requests: usize) -> Self {
        Self { waiting_requests, ..self }
    }

    /// The most heavy reads at a time; at least 1.
    #[must_use]
    pub fn with_heavy_reads(self, heavy_reads: usize) -> Self {
        Self { heavy_reads, ..self }
    }

    /// The most heavy writes at a time; at least 1.
    #[must_use]
    pub fn with_heavy_writes(self, heavy_writes: usize) -> Self {
        Self { heavy_writes, ..self }
    }

    /// The most connections of an address on which nobody has logged in yet.
    #[must_use]
    pub fn with_connections_before_login(self, connections_before_login: usize) -> Self {
        Self { connections_before_login, ..self }
    }

    /// Proxies, whose connections are those of many clients.
    #[must_use]
    pub fn with_trusted_proxies(self, proxies: impl IntoIterator<Item = Network>) -> Self {
        Self { trusted_proxies: proxies.into_iter().collect(), ..self }
    }

    /// The most streams that a login may follow for one user at a time.
    #[must_use]
    pub fn with_streams(self, streams: usize) -> Self {
        Self { streams, ..self }
    }

    /// How many requests a caller may send.
    #[must_use]
    pub fn with_rate(self, rate: RateLimit) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// How long runs and requests under way are waited for at the end.
    #[must_use]
    pub fn with_shutdown_time(self, shutdown_time: Duration) -> Self {
        Self { shutdown_time, ..self }
    }
}
