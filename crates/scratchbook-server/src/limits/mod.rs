//! Limits of sizes, numbers and times for each request, connection and caller.

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

pub(crate) use admit::{Lanes, ReadAfterWrite, admit};
pub(crate) use follow::{Download, follow_streams};
pub use network::Network;
pub use rate::RateLimit;
pub(crate) use rate::{Rates, limit_rate};
pub(crate) use streams::Streams;
pub(crate) use time::{answer_in_time, begins_run};

/// The limits of a server. The defaults suit a server that anybody can reach.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The maximum size of a request body, in bytes: 36 MiB. An event can have 16 MiB, and Google's clients send it
    /// twice. A larger body is answered with 413.
    pub body_bytes: usize,
    /// The maximum number of events in a body that creates a session: 20,000. A body with more is answered with 413.
    pub body_events: usize,
    /// The maximum number of parts of each content in a body: 10,000. A body with more is answered with 413.
    pub body_parts: usize,
    /// The maximum number of operations in a body: 100,000. A body with more is answered with 413.
    pub body_operations: usize,
    /// The maximum memory of all bodies and their parsed forms together, in bytes: 512 MiB. A body that alone needs
    /// more is answered with 413. A body for which no memory is free within [`body_wait`](Self::body_wait) is answered
    /// with 503 and `Retry-After`. One token gets at most half of this memory.
    pub body_memory: usize,
    /// How long a body waits for memory, and a large body for its turn: 5 seconds.
    pub body_wait: Duration,
    /// How long a body may take to arrive: 60 seconds. A slower body is answered with 408.
    pub body_time: Duration,
    /// The maximum size of a request's line and headers together, in bytes: 64 KiB. A request with more is answered
    /// with 431.
    pub header_bytes: usize,
    /// The maximum number of headers of a request: 100. A request with more is answered with 431.
    pub headers: usize,
    /// How long the line and headers of a request may take to arrive, from their first byte: 10 seconds. Then the
    /// connection is closed.
    pub header_time: Duration,
    /// How long a connection without a request is kept: 120 seconds. Connection pools of clients, such as Go's and
    /// reqwest's, keep a connection for 90 seconds. The server waits longer: if it closed a connection while a client
    /// sends a request, the client could not know whether the request was executed.
    pub idle_time: Duration,
    /// The maximum size of an answer, in bytes: 32 MiB. Pages of lists are made smaller to fit; any other larger answer
    /// is replaced by 413. All answers to reads in progress together may have eight times this size, and those of one
    /// token half of that. If they would exceed it, requests are answered with 503. Answers to writes have as much
    /// memory for themselves.
    pub answer_bytes: usize,
    /// How long an answer may take to begin, unless the request begins a run: 60 seconds. Then the request is answered
    /// with 503.
    pub answer_time: Duration,
    /// How long a client may read nothing while an answer is being sent to it: 60 seconds. Then its connection is
    /// closed.
    pub stall_time: Duration,
    /// The maximum number of connections at a time: 8,192. If one more arrives, the connection that has waited longest
    /// for a request is closed. If no connection waits for a request, the new one waits a second for a place and is
    /// then answered with 503. Streams may take three quarters of all connections.
    pub connections: usize,
    /// The maximum number of reads that are processed at a time, and of writes beside them: 128 each. Further requests
    /// wait, and callers take turns. If there are several callers, each may have an eighth of these requests. A caller
    /// is a login together with the user that it acts for. A request counts from the end of its body to the head of its
    /// answer; a run counts until it begins.
    pub requests: usize,
    /// The maximum number of requests that wait: 4,096, of which one caller may have a quarter. If the total is
    /// exceeded, requests are answered with 503; if the caller's quarter is exceeded, with 429.
    pub waiting_requests: usize,
    /// The maximum number of heavy reads at a time: half the number of cores. Heavy reads are searches of Vertex's
    /// lists, checks of a history, and reads of a whole session or list, unless the last answer to the same read was
    /// below 256 KiB.
    pub heavy_reads: usize,
    /// The maximum number of heavy writes at a time: 1. Heavy writes are requests with bodies of 256 KiB and more,
    /// forks, rewinds, and removals.
    pub heavy_writes: usize,
    /// The maximum number of connections without a login from one address (IPv6: from one network): 64. If one more
    /// arrives, the oldest of them is closed. Connections of this machine and of proxies are not counted. If the server
    /// requires no login, none are counted.
    pub connections_before_login: usize,
    /// The addresses of proxies, whose connections serve many clients. Their headers about clients are ignored.
    pub trusted_proxies: Vec<Network>,
    /// The maximum number of streams that a login may have open for one user: 256. Further streams are answered with
    /// 429. If the server requires no login, the number is not limited.
    pub streams: usize,
    /// How many requests a caller may send; unlimited by default. Further requests are answered with 429.
    pub rate: Option<RateLimit>,
    /// How long a shutdown waits for runs and requests in progress: 30 seconds.
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
            header_time: Duration::from_secs(10),
            idle_time: Duration::from_secs(120),
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

/// Generates a method `with_FIELD` for each field, which sets the field.
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
    /// Sets the maximum size of a request body, in bytes.
    with_body_bytes(body_bytes: usize);
    /// Sets the maximum number of events in a body.
    with_body_events(body_events: usize);
    /// Sets the maximum number of parts of each content in a body.
    with_body_parts(body_parts: usize);
    /// Sets the maximum number of operations in a body.
    with_body_operations(body_operations: usize);
    /// Sets the maximum memory of all bodies together, in bytes.
    with_body_memory(body_memory: usize);
    /// Sets how long a body waits for memory.
    with_body_wait(body_wait: Duration);
    /// Sets how long a body may take to arrive.
    with_body_time(body_time: Duration);
    /// Sets the maximum size of a request's line and headers together, in bytes. A value below 8 KiB means 8 KiB.
    with_header_bytes(header_bytes: usize);
    /// Sets the maximum number of headers of a request.
    with_headers(headers: usize);
    /// Sets how long the line and headers of a request may take to arrive, from their first byte.
    with_header_time(header_time: Duration);
    /// Sets how long a connection without a request is kept.
    with_idle_time(idle_time: Duration);
    /// Sets how long an answer may take to begin, unless the request begins a run.
    with_answer_time(answer_time: Duration);
    /// Sets how long a client may read nothing while an answer is being sent to it.
    with_stall_time(stall_time: Duration);
    /// Sets the maximum number of connections at a time.
    with_connections(connections: usize);
    /// Sets the maximum number of reads, and of writes beside them, that are processed at a time; at least 1.
    with_requests(requests: usize);
    /// Sets the maximum number of requests that wait.
    with_waiting_requests(waiting_requests: usize);
    /// Sets the maximum number of heavy reads at a time; at least 1.
    with_heavy_reads(heavy_reads: usize);
    /// Sets the maximum number of heavy writes at a time; at least 1.
    with_heavy_writes(heavy_writes: usize);
    /// Sets the maximum number of connections without a login from one address.
    with_connections_before_login(connections_before_login: usize);
    /// Sets the maximum number of streams that a login may have open for one user.
    with_streams(streams: usize);
    /// Sets how long a shutdown waits for runs and requests in progress.
    with_shutdown_time(shutdown_time: Duration);
}

impl ServerLimits {
    /// Sets the maximum size of an answer, in bytes. A value below 64 KiB means 64 KiB.
    #[must_use]
    pub fn with_answer_bytes(self, answer_bytes: usize) -> Self {
        Self { answer_bytes: answer_bytes.max(64 << 10), ..self }
    }

    /// Sets the addresses of proxies, whose connections serve many clients.
    #[must_use]
    pub fn with_trusted_proxies(self, proxies: impl IntoIterator<Item = Network>) -> Self {
        Self { trusted_proxies: proxies.into_iter().collect(), ..self }
    }

    /// Sets how many requests a caller may send.
    #[must_use]
    pub fn with_rate(self, rate: RateLimit) -> Self {
        Self { rate: Some(rate), ..self }
    }
}
