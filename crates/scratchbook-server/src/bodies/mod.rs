//! Bodies of requests. They are read whole and checked against limits, and get room in memory before they are parsed.
//!
//! A parsed body takes up to a hundred times the memory of its bytes. So a body is parsed only after its caller was
//! authorized, its items were counted, and there is room for it. Large bodies are parsed on separate threads, and not
//! on the runtime's workers.

mod counts;
mod layers;
mod room;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRef, FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use scratchbook::environment::Deadline;
use scratchbook::json::{self, Field, Weight};
use scratchbook::{Error, Result};

use crate::heavy::Heavy;
use crate::limits::ServerLimits;
use crate::wire_names::is_json;

pub(crate) use counts::{CONTENT, CountedItems, EVENT, OPERATIONS, PART, SESSION_EVENT, Shape};
pub(crate) use layers::{leave_workers, read_whole};
pub(crate) use room::{BodyMemory, Held};

/// Bodies with more bytes than this are processed on separate threads, and not on the runtime's workers.
pub(crate) const LARGE: usize = 32 << 10;

/// How many forms of a body are in memory at a time: the parsed one, the prepared one, and its text.
const COPIES: u64 = 3;

/// The state that is needed to read bodies.
#[derive(Clone, Debug)]
pub(crate) struct BodyState {
    pub(crate) limits: Arc<ServerLimits>,
    pub(crate) room: Arc<BodyMemory>,
    /// The threads that work on large bodies.
    pub(crate) heavy: Heavy,
}

/// A body that has not been parsed yet.
#[derive(Debug)]
pub(crate) struct Unread {
    bytes: Bytes,
    /// Whether the body is processed on a separate thread, and not on a worker of the runtime.
    is_large: bool,
    /// Whether its content type is JSON.
    is_json: bool,
    /// The compressions that the headers name.
    compression: Option<String>,
    state: BodyState,
    held: Held,
}

impl<S> FromRequest<S> for Unread
where
    S: Send + Sync,
    BodyState: FromRef<S>,
{
    type Rejection = BytesRejection;

    async fn from_request(request: Request, state: &S) -> Result<Self, BytesRejection> {
        let held = Held::of(request.extensions());
        let is_json = says_json(request.headers());
        let compression = request.headers().get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("unknown"));
        let compression = compression.filter(|name| !name.eq_ignore_ascii_case("identity")).map(str::to_owned);
        let bytes = Bytes::from_request(request, state).await?;
        Ok(Self { is_large: bytes.len() > LARGE, bytes, is_json, compression, state: BodyState::from_ref(state), held })
    }
}

/// Returns whether the content type of a body is JSON.
pub(crate) fn says_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    is_json(content_type.unwrap_or_default())
}

impl Unread {
    /// Returns the body as JSON text in UTF-8, without a byte order mark, after another check has found that its
    /// content type is JSON.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the body is compressed, or in another encoding.
    pub(crate) fn into_json(self) -> Result<Self> {
        let this = Self { is_json: true, ..self };
        this.check_not_compressed()?;
        let wide = match this.bytes.as_ref() {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
            // JSON text begins with two ASCII characters, or consists of one.
            [first, second, ..] => *first == 0 || *second == 0,
            _ => false,
        };
        if wide {
            return Err(Error::invalid("the body must be in UTF-8, got UTF-16 or UTF-32"));
        }
        let marked = this.bytes.starts_with(b"\xef\xbb\xbf");
        let bytes = if marked { this.bytes.slice(3..) } else { this.bytes };
        Ok(Self { bytes, ..this })
    }

    fn check_not_compressed(&self) -> Result<()> {
        let name = match (self.compression.as_deref(), self.bytes.as_ref()) {
            (_, []) => return Ok(()),
            (Some(name), _) => name,
            (None, [0x1f, 0x8b, ..]) if self.is_json => "gzip",
            (None, [0x28, 0xb5, 0x2f, 0xfd, ..]) if self.is_json => "zstd",
            _ => return Ok(()),
        };
        Err(Error::invalid(format!("the body must not be compressed, got '{name}'")))
    }

    /// Returns the bytes as they were received.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns whether the body's content type is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// Returns the texts of some fields of the body without parsing the rest, or `None` if the body is not JSON.
    ///
    /// # Errors
    ///
    /// `Unavailable` if too many large bodies are being processed.
    pub(crate) async fn texts<const N: usize>(&self, names: [&'static str; N]) -> Result<Option<[Field<'static>; N]>> {
        if !self.is_json {
            return Ok(None);
        }
        let bytes = self.bytes.clone();
        self.compute(move || json::texts(&bytes, names).ok().map(|found| found.map(Field::into_owned))).await
    }

    /// Parses the body after its items were counted and there is room for it.
    ///
    /// # Errors
    ///
    /// `PayloadTooLarge` names the kind of item of which there are too many; `Unavailable` if there is no room at the
    /// moment.
    pub(crate) async fn read<T: Send + 'static>(
        mut self,
        shape: &'static Shape,
        read: impl FnOnce(Bytes) -> T + Send + 'static,
    ) -> Result<T> {
        let (bytes, limits) = (self.bytes.clone(), Arc::clone(&self.state.limits));
        let weigh = move || counts::check(&bytes, shape, &limits).map(|more| Weight::of(&bytes).memory + more);
        let memory = if self.is_json { self.compute(weigh).await?? } else { self.bytes.len() as u64 };
        self.take(memory).await?;
        Deadline::current().check()?;
        let bytes = std::mem::take(&mut self.bytes);
        self.compute(move || read(bytes)).await
    }

    /// Waits for room and returns the body as bytes.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the body is compressed; `Unavailable` if there is no room at the moment.
    pub(crate) async fn data(self) -> Result<Bytes> {
        self.check_not_compressed()?;
        self.take(self.bytes.len() as u64).await?;
        Ok(self.bytes)
    }

    async fn take(&self, memory: u64) -> Result<()> {
        let room = self.held.take_parsed(&self.state.room, memory.saturating_mul(COPIES));
        match self.held.place() {
            // A request gives up its place while it waits for room.
            Some(place) => place.leave_for(room).await,
            None => room.await,
        }
    }

    /// Does work whose duration depends on the size of the body: on the same thread, or on a separate thread if the
    /// body is large.
    async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        if !self.is_large || self.held.place().is_some() {
            return Ok(work());
        }
        self.state.heavy.compute(work).await
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use scratchbook::connect;

    use super::*;
    use crate::Server;

    #[tokio::test]
    async fn a_large_body_is_read_off_the_workers() {
        let app_state = Server::builder(connect("memory:").await.unwrap()).build().unwrap().app_state();
        for (length, is_here) in [(LARGE, true), (LARGE + 1, false)] {
            let request = Request::post("/").body(vec![b' '; length].into()).unwrap();
            let unread = Unread::from_request(request, &app_state).await.unwrap().into_json().unwrap();
            let read = unread.read(&Shape::Any, |bytes| (bytes.len(), thread::current().id())).await.unwrap();
            assert_eq!((read.0, read.1 == thread::current().id()), (length, is_here));
        }
    }
}
