//! The class `Watch`: following a feed, one entry at a time.

use std::sync::Arc;

use pyo3::prelude::*;
use scratchbook::{Error, ErrorKind, SessionService};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, watch};

use crate::call::Call;
use crate::opened::{Opened, let_go};
use crate::shape::{Answer, Entry};

type Feed = scratchbook::Watch<Arc<dyn SessionService>>;

/// Follows what is committed.
#[pyclass(frozen, module = "scratchbook._scratchbook")]
pub(crate) struct Watch {
    handle: Handle,
    opened: Arc<Opened>,
    feed: Arc<Mutex<Feed>>,
    /// Ends with it, and with that whoever waits for an entry.
    end: watch::Sender<()>,
}

impl Watch {
    pub(crate) fn new(handle: Handle, opened: Arc<Opened>, feed: Feed) -> Self {
        Self { handle, opened, feed: Arc::new(Mutex::new(feed)), end: watch::Sender::new(()) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let_go(Arc::clone(&self.opened));
    }
}

#[pymethods]
impl Watch {
    /// The next entry as JSON, as soon as there is one.
    fn next(&self) -> PyResult<Call> {
        self.opened.check()?;
        let feed = Arc::clone(&self.feed);
        let mut end = self.end.subscribe();
        Ok(Call::new(self.handle.clone(), async move {
            let entry = async { feed.lock().await.next().await };
            tokio::select! {
                entry = entry => Answer::json(&Entry(entry?)),
                _ = end.changed() => Err(Error::new(ErrorKind::FailedPrecondition, "the watch was closed; begin another")),
            }
        }))
    }

    /// Ends the calls that wait for an entry.
    fn close(&self) {
        self.end.send_replace(());
    }

    /// Where another watch goes on from.
    fn cursor(&self) -> PyResult<Call> {
        self.opened.check()?;
        let feed = Arc::clone(&self.feed);
        Ok(Call::new(self.handle.clone(), async move {
            let feed = feed.lock().await;
            Answer::json(feed.cursor())
        }))
    }
}
