//! The exit of the interpreter.
//!
//! If a thread waits for the interpreter's lock while the interpreter exits, the interpreter unwinds the thread. If our
//! frames are on the thread's stack, the unwinding aborts the process. So there is a gate. A thread passes it before
//! our code on that thread takes the lock. This applies to our threads that wake a loop, and to Python threads in a
//! call. Before the exit the gate is closed, and the exit waits until all threads have left. A later thread waits at
//! the gate for ever, as in the interpreter itself from 3.14 on. Only the exiting thread may pass, since `atexit`
//! functions may make calls.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// How many threads have passed the gate and not left yet.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread is counted.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread runs the interpreter's exit.
    static ENDS: Cell<bool> = const { Cell::new(false) };
}

/// Runs work in Python on one of our threads; `None` if the interpreter is exiting.
pub(crate) fn enter<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _inside = Inside::count()?;
    Python::try_attach(work)
}

/// Runs our work on a Python thread. The work never starts if another thread runs the interpreter's exit.
pub(crate) fn visited<T>(py: Python<'_>, work: impl FnOnce() -> T) -> T {
    let _inside = Inside::count().unwrap_or_else(|| py.detach(|| stay()));
    work()
}

/// Runs work of a Python thread without the interpreter's lock, for any length of time.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(|| {
        let was_inside = leave();
        let done = work();
        if was_inside {
            // Counted until its `visited` ends.
            Inside::count().map_or_else(|| stay(), std::mem::forget);
        }
        done
    })
}

/// Whether this thread runs the interpreter's exit.
pub(crate) fn ends() -> bool {
    ENDS.get()
}

/// Closes the gate and waits until all threads have left; called by `atexit`.
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

/// Resets the state in the child of a fork, which has none of its parent's threads.
pub(crate) fn reset() {
    IS_INSIDE.set(false);
    ENDS.set(false);
    INSIDE.store(0, Ordering::SeqCst);
    IS_CLOSED.store(false, Ordering::SeqCst);
}

/// Waits for ever. The interpreter's lock must not be held.
fn stay() -> ! {
    loop {
        thread::park();
    }
}

/// Stops counting this thread; returns whether it was counted.
fn leave() -> bool {
    let was_inside = IS_INSIDE.replace(false);
    if was_inside {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
    was_inside
}

/// A thread that has passed the gate. It is counted once, however often it has entered.
struct Inside {
    is_outermost: bool,
}

impl Inside {
    /// `None` if the gate is closed, except for the thread that has closed it.
    fn count() -> Option<Self> {
        let is_outermost = !IS_INSIDE.replace(true);
        let inside = Self { is_outermost };
        if is_outermost {
            INSIDE.fetch_add(1, Ordering::SeqCst);
            // Checked after counting: either this thread sees the closed gate, or the closing thread sees this one.
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
