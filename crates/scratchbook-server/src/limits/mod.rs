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

/// The limits of a server. The defaults suit a server that anybody can reach.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The longest body of a request, in bytes: 36 MiB, room for the largest event that a store takes,
    /// 16 MiB, twice, as Google's clients send it. A longer one answers 413.
    pub body_bytes: usize,
    /// The most events in a body that creates a session: 20,000. More answer 413.
    pub body_events: usize,
    /// The most parts of each content in a body: 10,000. More answer 413.
    pub body_parts: usize,
    /// The most operations in a body: 100,000. More answer 413.
    pub body_operations: usize,
    /// The most bytes of memory that all bodies, and what is parsed from them, take at a time: 512 MiB. A body that
    /// would take more by itself answers 413; those for which there is no room in [`body_wait`](Self::body_wait) answer
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
    /// How long the line and headers of a later request may take, from the end of the request before: 30 seconds. A
    /// connection is kept for as long. Then it is closed.
    pub header_time: Duration,
    /// The most bytes of an answer: 32 MiB. A longer one answers 413; pages are made smaller instead. All answers in
    /// progress have eight times this together; beyond it, requests answer 503.
    pub answer_bytes: usize,
    /// How long an answer may take to begin, unless the request begins a run: 60 seconds. A slower one answers 503.
    pub answer_time: Duration,
    /// How long a client may read nothing of what is sent to it: 60 seconds. Then its connection is closed.
    pub stall_time: Duration,
    /// The most connections at a time: 8,192. If one more comes, the one that has waited longest for a request ends; if
    /// there is none, it waits a second for a place, and then answers 503. Streams have three quarters of them.
    pub connections: usize,
    /// The most requests that are worked on at a time: 128. More wait, and callers take turns: if there are others, one
    /// caller has an eighth of them. A caller is a login together with the user that it acts for. A request counts from
    /// the end of its body to the head of its answer; a run, until it begins.
    pub requests: usize,
    /// The most requests that wait: 4,096, of which one caller has a quarter. More answer 503, or 429.
    pub waiting_requests: usize,
    /// The most heavy reads at a time: half as many as there are cores. Those are reads of a whole session or list,
    /// unless its last answer was below 256 KiB, searches of Vertex's lists, and checks of a history.
    pub heavy_reads: usize,
    /// The most heavy writes at a time: 1. Heavy writes are requests of 256 KiB and more, forks, rewinds, and removals.
    pub heavy_writes: usize,
    /// The most connections of an address (IPv6: a network) on which nobody has logged in yet: 64. If one more comes,
    /// the oldest of them ends. They are not counted if nobody has to log in, nor are those of this machine and of
    /// proxies.
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

/// Makes a method `with_FIELD` for each field, which sets it.
macro_rules! setters {
    ($($(#[$doc:meta])* $with:ident($field:ident: $type:ty);)+) => {
        impl ServerLimits {
            $($(#[$doc])*
            #[must_use]
            pub fn $with(self, $field: $type) -> Self {
                Self { $field, ..self }
            })+
        }
    };
}

setters! {
    /// The longest body of a request, in bytes.
    with_body_bytes(body_bytes: usize);
    /// The most events in a body.
    with_body_events(body_events: usize);
    /// The most parts of each content in a body.
    with_body_parts(body_parts: usize);
    /// The most operations in a body.
    with_body_operations(body_operations: usize);
    /// The most bytes of memory that bodies take, all of them at a time.
    with_body_memory(body_memory: usize);
    /// How long a body waits for room.
    with_body_wait(body_wait: Duration);
    /// How long a body may take to come.
    with_body_time(body_time: Duration);
    /// The most bytes of a request's line and headers together; 8 KiB at least are taken.
    with_header_bytes(header_bytes: usize);
    /// The most headers of a request.
    with_headers(headers: usize);
    /// How long the line and headers of a connection's first request may take to come.
    with_first_header_time(first_header_time: Duration);
    /// How long the line and headers of a later request may take to come.
    with_header_time(header_time: Duration);
    /// How long an answer may take to begin, unless the request begins a run.
    with_answer_time(answer_time: Duration);
    /// How long a client may read nothing of what is sent to it.
    with_stall_time(stall_time: Duration);
    /// The most connections at a time.
    with_connections(connections: usize);
    /// The most requests that are worked on at a time; at least 1.
    with_requests(requests: usize);
    /// The most requests that wait.
    with_waiting_requests(waiting_requests: usize);
    /// The most heavy reads at a time; at least 1.
    with_heavy_reads(heavy_reads: usize);
    /// The most heavy writes at a time; at least 1.
    with_heavy_writes(heavy_writes: usize);
    /// The most connections of an address on which nobody has logged in yet.
    with_connections_before_login(connections_before_login: usize);
    /// The most streams that a login may follow for one user at a time.
    with_streams(streams: usize);
    /// How long runs and requests under way are waited for at the end.
    with_shutdown_time(shutdown_time: Duration);
}

impl ServerLimits {
    /// The most bytes of an answer; 64 KiB at least are taken.
    #[must_use]
    pub fn with_answer_bytes(self, answer_bytes: usize) -> Self {
        Self { answer_bytes: answer_bytes.max(64 << 10), ..self }
    }

    /// Proxies, whose connections are those of many clients.
    #[must_use]
    pub fn with_trusted_proxies(self, proxies: impl IntoIterator<Item = Network>) -> Self {
        Self { trusted_proxies: proxies.into_iter().collect(), ..self }
    }

    /// How many requests a caller may send.
    #[must_use]
    pub fn with_rate(self, rate: RateLimit) -> Self {
        Self { rate: Some(rate), ..self }
    }
}
