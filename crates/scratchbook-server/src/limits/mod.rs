//! How much and how long: of a request, of a connection, of a caller.

mod body;
mod rate;
mod time;

use std::time::Duration;

pub(crate) use body::read_whole;
pub use rate::RateLimit;
pub(crate) use rate::Rates;
pub(crate) use time::answer_in_time;

/// What a server bears with. The defaults are made for a server that strangers reach.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerLimits {
    /// The longest body of a request, in bytes: 16 MiB. A longer one answers 413.
    pub body_bytes: usize,
    /// How long a body may take to come: 60 seconds. A slower one answers 408.
    pub body_time: Duration,
    /// The most bytes of a request's line and headers together: 64 KiB. More answer 431.
    pub header_bytes: usize,
    /// The most headers of a request: 100. More answer 431.
    pub headers: usize,
    /// How long a request's line and headers may take to come, from the beginning of the connection or the end of the
    /// request before; so also how long a connection is kept for another request: 30 seconds. Then it is closed.
    pub header_time: Duration,
    /// The most bytes of an answer: 32 MiB. A longer one answers 413; what has pages has pages with fewer. All answers that
    /// are being made and sent have eight times this together; what is beyond it answers 503.
    pub answer_bytes: usize,
    /// How long an answer may take to begin, where no agent runs: 60 seconds. A slower one answers 503.
    pub answer_time: Duration,
    /// How long a client may take nothing of what is sent to it: 60 seconds. Then its connection is closed.
    pub stall_time: Duration,
    /// The most connections at a time: 8,192. More wait until one ends.
    pub connections: usize,
    /// How many requests a caller may send; as many as it likes by default. More answer 429.
    pub rate: Option<RateLimit>,
    /// How long runs and requests under way are waited for at the end: 30 seconds.
    pub shutdown_time: Duration,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body_bytes: 16 << 20,
            body_time: Duration::from_secs(60),
            header_bytes: 64 << 10,
            headers: 100,
            header_time: Duration::from_secs(30),
            answer_bytes: 32 << 20,
            answer_time: Duration::from_secs(60),
            stall_time: Duration::from_secs(60),
            connections: 8_192,
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

    /// How long a request's line and headers may take to come.
    #[must_use]
    pub fn with_header_time(self, header_time: Duration) -> Self {
        Self { header_time, ..self }
    }

    /// The most bytes of an answer; 64 KiB at least are taken.
    #[must_use]
    pub fn with_answer_bytes(self, answer_bytes: usize) -> Self {
        Self { answer_bytes: answer_bytes.max(64 << 10), ..self }
    }

    /// How long an answer may take to begin, where no agent runs.
    #[must_use]
    pub fn with_answer_time(self, answer_time: Duration) -> Self {
        Self { answer_time, ..self }
    }

    /// How long a client may take nothing of what is sent to it.
    #[must_use]
    pub fn with_stall_time(self, stall_time: Duration) -> Self {
        Self { stall_time, ..self }
    }

    /// The most connections at a time.
    #[must_use]
    pub fn with_connections(self, connections: usize) -> Self {
        Self { connections, ..self }
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
