//! The end of the interpreter.
//!
//! A thread that waits for the interpreter's lock when the interpreter ends is unwound by it, and with our frames on its
//! stack that aborts the process. So whoever is in code of ours and holds that lock, or is about to take it, has come
//! through a gate: a thread of ours to wake a loop, or one of Python's in a call. Before the end the gate is closed, and
//! waited for until all are out. Who comes later stays before it for ever, as the interpreter itself has it from 3.14 on;
//! but the thread that ends goes on, since functions of `atexit` may call.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// How many threads are inside.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread is counted.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread ends the interpreter.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// Has a thread of ours do something in Python; `None` where the interpreter ends.
pub(crate) fn enter<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _inside = Inside::count()?;
    Python::try_attach(work)
}

/// What a thread of Python's does here. It does not come to it where another one ends the interpreter.
pub(crate) fn visited<T>(py: Python<'_>, work: impl FnOnce() -> T) -> T {
    let _inside = Inside::count().unwrap_or_else(|| py.detach(|| stay()));
    work()
}

/// What a thread of Python's does outside meanwhile: without the interpreter's lock, and however long.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(|| {
        let was_inside = leave();
        let done = work();
        if was_inside {
            // Counted until its visit ends.
            Inside::count().map_or_else(|| stay(), std::mem::forget);
        }
        done
    })
}

/// Whether this thread ends the interpreter: then its loop is woken by no other thread any more.
pub(crate) fn ends() -> bool {
    ENDS.get()
}

/// Called by `atexit`.
#[pyfunction]
pub(crate) fn before_exit(py: Python<'_>) {
    ENDS.set(true);
    IS_CLOSED.store(true, Ordering::SeqCst);
    py.detach(|| {
        while INSIDE.load(Ordering::SeqCst) > 0 {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// In the child of a fork, which has none of its parent's threads.
pub(crate) fn reset() {
    IS_INSIDE.set(false);
    ENDS.set(false);
    INSIDE.store(0, Ordering::SeqCst);
    IS_CLOSED.store(false, Ordering::SeqCst);
}

/// For ever. The interpreter's lock must not be held.
fn stay() -> ! {
    loop {
        thread::park();
    }
}

/// Counts this thread no more; whether it was.
fn leave() -> bool {
    let was_inside = IS_INSIDE.replace(false);
    if was_inside {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
    was_inside
}

/// A thread inside, counted once however often it has come in.
struct Inside {
    is_outermost: bool,
}

impl Inside {
    /// `None` where the gate is closed, for all but the thread that has closed it.
    fn count() -> Option<Self> {
        let is_outermost = !IS_INSIDE.replace(true);
        let inside = Self { is_outermost };
        if is_outermost {
            INSIDE.fetch_add(1, Ordering::SeqCst);
            // Looked at after it was counted: whoever closes the gate either sees this thread or is seen by it.
            if IS_CLOSED.load(Ordering::SeqCst) && !ENDS.get() {
                return None;
            }
        }
        Some(inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.is_outermost {
            leave();
        }
    }
}
