//! The end of the interpreter.
//!
//! A thread that is amid Python code when the interpreter ends is unwound by it at its next wait for the interpreter's
//! lock, and with our frames on its stack that aborts the process. So threads of ours enter through a gate, which is
//! closed before that, once all have come out.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// How many threads of ours are in Python code, or wait to be.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Has a thread of ours do something in Python; `None` where the interpreter ends.
pub(crate) fn enter<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _inside = Inside::new();
    // Looked at after it was counted: whoever closes the gate either sees this thread or is seen by it.
    if ends() { None } else { Python::try_attach(work) }
}

/// Whether the interpreter ends: then no loop is woken any more.
pub(crate) fn ends() -> bool {
    IS_CLOSED.load(Ordering::SeqCst)
}

/// Called by `atexit`.
#[pyfunction]
pub(crate) fn before_exit(py: Python<'_>) {
    IS_CLOSED.store(true, Ordering::SeqCst);
    py.detach(|| {
        while INSIDE.load(Ordering::SeqCst) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// In the child of a fork, which has none of its parent's threads.
pub(crate) fn reset() {
    INSIDE.store(0, Ordering::SeqCst);
    IS_CLOSED.store(false, Ordering::SeqCst);
}

struct Inside;

impl Inside {
    fn new() -> Self {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}
