//! A call on its way: awaited by an event loop, or waited for by a thread.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use scratchbook::{Error, Result};
use tokio::runtime::Handle;

use crate::ending;
use crate::error::exception;
use crate::port::Port;
use crate::shape::Answer;

/// How often a thread that waits looks whether it was interrupted.
const SIGNALS: Duration = Duration::from_millis(50);

type Ending = Pin<Box<dyn Future<Output = Result<Answer>> + Send>>;

thread_local! {
    /// Whether calls that are awaited in this thread are waited for instead.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

/// Runs a coroutine that awaits nothing but calls to its end, without an event loop, or within one that stands still
/// meanwhile.
#[pyfunction]
pub(crate) fn wait<'py>(coroutine: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let before = WAITS.replace(true);
    let ended = coroutine.call_method1("send", (coroutine.py().None(),));
    WAITS.set(before);
    match ended {
        Err(error) if error.is_instance_of::<PyStopIteration>(coroutine.py()) => {
            error.value(coroutine.py()).getattr("value")
        }
        Err(error) => Err(error),
        Ok(_) => {
            coroutine.call_method0("close")?;
            Err(PyRuntimeError::new_err("the coroutine awaits something else than a call; run it in an event loop"))
        }
    }
}

/// How far a call came on the thread that began it.
enum Begun {
    Ended(Result<Answer>),
    Waits(Ending),
}

/// What a method of `Store` gives: `await` it in a coroutine, or `wait()` for it in any thread. Once.
///
/// Nothing happens before. Cancelling the wait does not cancel the call: what became of it is unknown then.
#[pyclass(frozen, module = "scratchbook._scratchbook")]
pub(crate) struct Call {
    future: Mutex<Option<Ending>>,
    handle: Handle,
}

impl Call {
    pub(crate) fn new(handle: Handle, future: impl Future<Output = Result<Answer>> + Send + 'static) -> Self {
        Self { future: Mutex::new(Some(Box::pin(future))), handle }
    }

    fn take(&self) -> PyResult<Ending> {
        let future = self.future.lock().unwrap_or_else(PoisonError::into_inner).take();
        future.ok_or_else(|| PyRuntimeError::new_err("this call was awaited already; make another one"))
    }

    /// Goes as far as it can on this thread, which is often to the end: then no other thread is asked.
    fn begin(&self, py: Python<'_>, mut future: Ending) -> Begun {
        py.detach(|| {
            let _runtime = self.handle.enter();
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(answer) => Begun::Ended(answer),
                Poll::Pending => Begun::Waits(future),
            }
        })
    }

    fn spawn(&self, future: Ending, then: impl FnOnce(Result<Answer>) + Send + 'static) {
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
        if WAITS.get() || ending::ends() {
            let value = self.wait(py)?;
            return Ok(Py::new(py, Ready(Mutex::new(Some(value))))?.into_any());
        }
        match self.begin(py, self.take()?) {
            Begun::Ended(answer) => {
                let value = answer.map_err(|error| exception(py, &error))?.into_python(py)?;
                Ok(Py::new(py, Ready(Mutex::new(Some(value))))?.into_any())
            }
            Begun::Waits(future) => {
                let (port, waiter) = Port::of_running_loop(py)?;
                let awaited = waiter.call_method0(py, "__await__")?;
                self.spawn(future, move |answer| Port::end(port, waiter, answer));
                Ok(awaited)
            }
        }
    }

    /// Waits for the end without the interpreter's lock; an interrupt ends the wait.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let answer = match self.begin(py, self.take()?) {
            Begun::Ended(answer) => answer,
            Begun::Waits(future) => {
                let (end, mut ended) = sync_channel(1);
                // Whoever was interrupted does not listen any more.
                self.spawn(future, move |answer| drop(end.send(answer)));
                loop {
                    let ended = &mut ended;
                    match py.detach(move || ended.recv_timeout(SIGNALS)) {
                        Ok(answer) => break answer,
                        Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                        Err(RecvTimeoutError::Disconnected) => {
                            break Err(Error::internal("the threads that carry out calls have ended"));
                        }
                    }
                }
            }
        };
        answer.map_err(|error| exception(py, &error))?.into_python(py)
    }
}

/// The iterator of a call that has ended before it was waited for.
#[pyclass(frozen)]
struct Ready(Mutex<Option<Py<PyAny>>>);

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
