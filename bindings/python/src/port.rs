//! Notifies an event loop that a call has ended.
//!
//! Each loop has a port. Calls that end put their answers into it; the first one wakes the loop, which takes all
//! answers that are there by then.

use std::mem;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use scratchbook::Result;

use crate::ending::{self, visited};
use crate::error::exception;
use crate::shape::CallAnswer;

type Ended = (Py<PyAny>, Result<CallAnswer>);

/// The answers that one event loop has not taken yet.
#[pyclass(frozen)]
#[derive(Default)]
pub(crate) struct Port {
    ended: Mutex<Vec<Ended>>,
}

impl Port {
    /// The loop that runs in this thread.
    pub(crate) fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        RUNNING.import(py, "asyncio", "get_running_loop")?.call0()
    }

    /// The port of a loop, and a future of that loop that is completed through it.
    pub(crate) fn of<'py>(running: &Bound<'py, PyAny>) -> PyResult<(Py<Self>, Bound<'py, PyAny>)> {
        static PORTS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = running.py();
        let ports = PORTS
            .get_or_try_init(py, || py.import("weakref")?.getattr("WeakKeyDictionary")?.call0().map(Bound::unbind))?;
        let waiter = running.call_method0("create_future")?;
        let found = ports.bind(py).call_method1("get", (running,))?;
        if let Ok(port) = found.cast_into::<Self>() {
            return Ok((port.unbind(), waiter));
        }
        let port = Py::new(py, Self::default())?;
        ports.bind(py).set_item(running, &port)?;
        Ok((port, waiter))
    }

    /// Gives a future its answer, from any thread.
    pub(crate) fn end(port: Py<Self>, waiter: Py<PyAny>, answer: Result<CallAnswer>) {
        let is_first = {
            let mut ended = port.get().lock();
            ended.push((waiter, answer));
            ended.len() == 1
        };
        if !is_first {
            return;
        }
        // While the interpreter exits, nobody waits.
        let woken = ending::enter(|py| {
            let waiter = port.get().lock().first().map(|(waiter, _)| waiter.clone_ref(py));
            let Some(waiter) = waiter else { return Ok(()) };
            let running = waiter.call_method0(py, "get_loop")?;
            running.call_method1(py, "call_soon_threadsafe", (port.clone_ref(py),)).map(drop)
        });
        if !matches!(woken, Some(Ok(()))) {
            // The loop was closed, so nobody waits for its futures.
            drop(mem::take(&mut *port.get().lock()));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Ended>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Port {
    /// Completes the futures; called by their loop. A future that fails does not delay the others.
    fn __call__(&self, py: Python<'_>) {
        visited(py, || {
            for (waiter, answer) in mem::take(&mut *self.lock()) {
                if let Err(error) = Self::tell(py, &waiter, answer) {
                    error.write_unraisable(py, Some(waiter.bind(py)));
                }
            }
        });
    }
}

impl Port {
    fn tell(py: Python<'_>, waiter: &Py<PyAny>, answer: Result<CallAnswer>) -> PyResult<()> {
        // It was cancelled in the meantime.
        if waiter.call_method0(py, "done")?.is_truthy(py)? {
            return Ok(());
        }
        match answer.map_err(|error| exception(py, &error)).and_then(|answer| answer.into_python(py)) {
            Ok(value) => waiter.call_method1(py, "set_result", (value,))?,
            Err(error) => waiter.call_method1(py, "set_exception", (error,))?,
        };
        Ok(())
    }
}
