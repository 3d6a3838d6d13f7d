//! The class `Watch`: following a feed, one entry at a time.

use std::sync::Arc;

use pyo3::prelude::*;
use scratchbook::session::{FeedCursor, FeedStart, Watched};
use scratchbook::{Error, ErrorKind, Result, SessionKey, SessionService};
use tokio::sync::{Mutex, OnceCell, watch};

use crate::call::Call;
use crate::opened::{LazyStore, let_go};
use crate::runtime;
use crate::shape::{CallAnswer, FeedEntryShape, to_json};

/// The followed session, user or app, and the start.
#[derive(Debug)]
pub(crate) struct WatchTarget {
    /// App, user, session id.
    pub(crate) named: (String, Option<String>, Option<String>),
    pub(crate) key_prefix: String,
    pub(crate) start: String,
    pub(crate) cursor: Option<String>,
}

/// Follows commits.
#[pyclass(frozen, module = "scratchbook._scratchbook", name = "Watch")]
pub(crate) struct PyWatch {
    shared: Arc<WatchState>,
}

struct WatchState {
    opened: Arc<LazyStore>,
    wanted: WatchTarget,
    begun: OnceCell<Mutex<FeedReading>>,
    reader: watch::Sender<WaitingReader>,
}

/// The waiting reader. If its loop cancels the wait, the reader continues here until the next reader comes.
#[derive(Default)]
struct WaitingReader {
    number: u64,
    is_closed: bool,
}

struct FeedReading {
    feed: scratchbook::session::Watch<Arc<dyn SessionService>>,
    /// How many entries were returned.
    given: u64,
    /// The last returned entry. It may have to be returned again, because the reader that got it may have been
    /// cancelled.
    last: Vec<u8>,
}

impl PyWatch {
    pub(crate) fn new(opened: Arc<LazyStore>, wanted: WatchTarget) -> Self {
        let (begun, reader) = (OnceCell::new(), watch::Sender::default());
        Self { shared: Arc::new(WatchState { opened, wanted, begun, reader }) }
    }

    fn call<F>(&self, py: Python<'_>, work: impl FnOnce(Arc<WatchState>) -> F) -> PyResult<Call>
    where
        F: Future<Output = Result<CallAnswer>> + Send + 'static,
    {
        self.shared.opened.check()?;
        Ok(Call::new(runtime::handle(py)?, work(Arc::clone(&self.shared))))
    }
}

impl Drop for PyWatch {
    fn drop(&mut self) {
        let_go(Arc::clone(&self.shared.opened));
    }
}

#[pymethods]
impl PyWatch {
    /// Starts the watch. Otherwise the first request for an entry starts it.
    fn start(&self, py: Python<'_>) -> PyResult<Call> {
        self.call(py, |shared| async move {
            let ended = shared.begin().await.map(|_| CallAnswer::Nothing);
            shared.told(ended).await
        })
    }

    /// The entry after the first `taken` ones, as JSON, as soon as there is one.
    fn next(&self, py: Python<'_>, taken: u64) -> PyResult<Call> {
        self.call(py, |shared| async move {
            shared.reader.send_modify(|reader| reader.number += 1);
            let mut later = shared.reader.subscribe();
            let entry = async {
                let reading = shared.begin().await?;
                tokio::select! {
                    entry = async { reading.lock().await.entry(taken).await } => entry.map(CallAnswer::Json),
                    _ = later.changed() => Err(closed()),
                }
            };
            let ended = entry.await;
            shared.told(ended).await
        })
    }

    /// Ends the calls that wait for an entry.
    fn close(&self) {
        self.shared.reader.send_modify(|reader| reader.is_closed = true);
    }
}

impl WatchState {
    async fn begin(&self) -> Result<&Mutex<FeedReading>> {
        if self.reader.borrow().is_closed {
            return Err(closed());
        }
        let begin = async || {
            let watches = self.opened.watches().await?;
            let feed = watches.start(self.wanted.watched()?, self.wanted.start()?).await?;
            Ok(Mutex::new(FeedReading { feed, given: 0, last: Vec::new() }))
        };
        self.begun.get_or_try_init(begin).await
    }

    async fn told(&self, ended: Result<CallAnswer>) -> Result<CallAnswer> {
        match &self.wanted.named {
            (app_name, Some(user), Some(session)) if ended.is_err() => {
                self.opened.told_of(&SessionKey::new(app_name, user, session)?, ended).await
            }
            _ => ended,
        }
    }
}

impl FeedReading {
    async fn entry(&mut self, taken: u64) -> Result<Vec<u8>> {
        if self.given <= taken {
            self.last = to_json(&FeedEntryShape(self.feed.next().await?))?;
            self.given += 1;
        }
        Ok(self.last.clone())
    }
}

impl WatchTarget {
    fn watched(&self) -> Result<Watched> {
        let (app_name, user_id, session_id) = &self.named;
        let what = match (user_id, session_id) {
            (Some(user), Some(session)) => Watched::session(SessionKey::new(app_name, user, session)?),
            (Some(user), None) => Watched::user(app_name, user)?,
            (None, None) => Watched::app(app_name)?,
            (None, Some(_)) => return Err(Error::invalid("a session is of a user; name the user_id as well")),
        };
        Ok(what.with_key_prefix(&self.key_prefix))
    }

    fn start(&self) -> Result<FeedStart> {
        match (&self.cursor, self.start.as_str()) {
            (Some(cursor), _) => Ok(FeedStart::After(FeedCursor::new(cursor))),
            (None, "now") => Ok(FeedStart::Now),
            (None, "beginning") => Ok(FeedStart::Beginning),
            (None, other) => Err(Error::invalid(format!("start is 'now' or 'beginning', not '{other}'"))),
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::FailedPrecondition, "the watch was closed; begin another")
}
