//! A call: awaited by an event loop, or waited for by a thread.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use scratchbook::{Error, Result};
use tokio::runtime::Handle;

use crate::ending::{self, detached, visited};
use crate::error::exception;
use crate::port::Port;
use crate::shape::CallAnswer;

/// The interval at which a waiting thread checks for an interrupt.
const SIGNALS: Duration = Duration::from_millis(50);
/// The maximum time for which a loop that nobody wakes is blocked.
const TURN: Duration = Duration::from_millis(5);

type CallFuture = Pin<Box<dyn Future<Output = Result<CallAnswer>> + Send>>;

thread_local! {
    /// Whether awaiting a call blocks this thread.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Whether awaiting a call blocks this thread.
#[pyfunction]
pub(crate) fn waits() -> bool {
    WAITS.get()
}

#[pyfunction]
pub(crate) fn set_waits(waits: bool) {
    WAITS.set(waits);
}

/// The progress of a call on the thread that began it.
enum CallProgress {
    Ended(Result<CallAnswer>),
    Waits(CallFuture),
}

/// The result of a method of `Store`: `await` it in a coroutine, or `wait()` for it in any thread, but only once.
///
/// The call starts when it is awaited or waited for. Cancelling the wait does not cancel the call, but its outcome is
/// then unknown.
#[pyclass(frozen, module = "scratchbook._scratchbook")]
pub(crate) struct Call {
    future: Mutex<Option<CallFuture>>,
    handle: Handle,
}

impl Call {
    pub(crate) fn new(handle: Handle, future: impl Future<Output = Result<CallAnswer>> + Send + 'static) -> Self {
        Self { future: Mutex::new(Some(Box::pin(future))), handle }
    }

    fn take(&self) -> PyResult<CallFuture> {
        let future = self.future.lock().unwrap_or_else(PoisonError::into_inner).take();
        future.ok_or_else(|| PyRuntimeError::new_err("this call was awaited already; make another one"))
    }

    /// Runs the call on this thread as far as possible. Often it ends there, and then no other thread is needed.
    fn begin(&self, py: Python<'_>, mut future: CallFuture) -> CallProgress {
        detached(py, || {
            let _runtime = self.handle.enter();
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => CallProgress::Ended(answer),
                Poll::Pending => CallProgress::Waits(future),
            }
        })
    }

    /// Lets another thread complete the call.
    fn send(&self, future: CallFuture) -> Sent {
        let (end, ended) = sync_channel(1);
        // After an interrupt nobody receives the answer.
        self.spawn(future, move |answer| drop(end.send(answer)));
        Sent(Mutex::new(ended))
    }

    fn spawn(&self, future: CallFuture, then: impl FnOnce(Result<CallAnswer>) + Send + 'static) {
        self.handle.spawn(async move {
            let ended = AssertUnwindSafe(future).catch_unwind().await;
            then(
                ended.unwrap_or_else(|_| {
                    Err(Error::internal("a defect ended the call; its message is on standard error"))
                }),
            );
        });
    }
}

#[pymethods]
impl Call {
    fn __await__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        visited(py, || {
            if WAITS.get() {
                return Ready::with(py, self.wait_inside(py)?);
            }
            // The loop is looked up first, so that a call that nobody can await does not start.
            let running = Port::running_loop(py)?;
            match self.begin(py, self.take()?) {
                CallProgress::Ended(answer) => Ready::with(py, value(py, answer)?),
                CallProgress::Waits(future) if ending::ends() => Ok(Py::new(py, self.send(future))?.into_any()),
                CallProgress::Waits(future) => {
                    let (port, waiter) = Port::of(&running)?;
                    let awaited = waiter.call_method0("__await__")?.unbind();
                    let waiter = waiter.unbind();
                    self.spawn(future, move |answer| Port::end(port, waiter, answer));
                    Ok(awaited)
                }
            }
        })
    }

    /// Waits for the end without the interpreter's lock; an interrupt ends the wait.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        visited(py, || self.wait_inside(py))
    }
}

impl Call {
    fn wait_inside(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.begin(py, self.take()?) {
            CallProgress::Ended(answer) => value(py, answer),
            CallProgress::Waits(future) => {
                let sent = self.send(future);
                loop {
                    match sent.look(py, SIGNALS) {
                        Some(answer) => break value(py, answer),
                        None => py.check_signals()?,
                    }
                }
            }
        }
    }
}

fn value(py: Python<'_>, answer: Result<CallAnswer>) -> PyResult<Py<PyAny>> {
    answer.map_err(|error| exception(py, &error))?.into_python(py)
}

/// A call that another thread completes. Nobody wakes the loop, so an awaited call is polled between the turns of the
/// loop.
#[pyclass(frozen)]
struct Sent(Mutex<Receiver<Result<CallAnswer>>>);

impl Sent {
    /// Waits for the answer, at most this long.
    fn look(&self, py: Python<'_>, most: Duration) -> Option<Result<CallAnswer>> {
        let looked = detached(py, || self.0.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(most));
        match looked {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(Error::internal("the threads that carry out calls have ended")))
            }
        }
    }
}

#[pymethods]
impl Sent {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// `None` lets other tasks of the loop run.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        visited(py, || match self.look(py, TURN) {
            Some(answer) => Err(PyStopIteration::new_err((value(py, answer)?,))),
            None => Ok(Some(py.None())),
        })
    }
}

/// The iterator of a call that ended before it was waited for.
#[pyclass(frozen)]
struct Ready(Mutex<Option<Py<PyAny>>>);

impl Ready {
    fn with(py: Python<'_>, value: Py<PyAny>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, Self(Mutex::new(Some(value))))?.into_any())
    }
}

#[pymethods]
impl Ready {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self) -> PyResult<()> {
        let value = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        Err(PyStopIteration::new_err((value,)))
    }
}
