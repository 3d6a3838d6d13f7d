//! The threads that calls run on.
//!
//! One Tokio runtime serves a process, for all loops and threads that call. A fork copies none of its threads: a child
//! creates its own runtime, and cannot use what its parent had opened.

use std::process;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::ending;

/// The number of threads. Two are enough to wait on sockets, and SQLite has its own threads.
const THREADS: usize = 2;

/// Only threads that are attached to the interpreter lock this, so no other thread holds the lock while `os.fork` runs.
static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);

/// How many SQLite files are open in this process.
static FILES: AtomicUsize = AtomicUsize::new(0);

/// How many SQLite files were open when this process was forked from its parent.
static INHERITED_FILES: AtomicUsize = AtomicUsize::new(0);

/// The runtime of this process, created if there is none yet.
pub(crate) fn handle(_: Python<'_>) -> PyResult<Handle> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(runtime) = &*runtime {
        return Ok(runtime.handle().clone());
    }
    let made = Builder::new_multi_thread().worker_threads(THREADS).thread_name("scratchbook").enable_all().build()?;
    let handle = made.handle().clone();
    *runtime = Some(made);
    Ok(handle)
}

/// Called first in the child of a fork: the child forgets its parent's runtime, whose threads it does not have.
#[pyfunction]
pub(crate) fn after_fork(_py: Python<'_>) {
    let mut runtime = RUNTIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Dropping the runtime would wait for its threads.
    std::mem::forget(runtime.take());
    ending::reset();
    INHERITED_FILES.fetch_add(FILES.swap(0, Ordering::Relaxed), Ordering::Relaxed);
}

/// Refuses a store that another process has opened: a parent before a fork.
pub(crate) fn check_process(opened_by: u32) -> PyResult<()> {
    if opened_by == process::id() {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!(
        "this store was opened by process {opened_by}, before a fork; make a new service in each process, or make the \
         first call after the fork"
    )))
}

/// Refuses a SQLite file in a process whose parent had a SQLite file open at the fork: SQLite would take the parent's
/// locks for its own.
pub(crate) fn check_file() -> PyResult<()> {
    if INHERITED_FILES.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(
        "this process was forked while its parent had a SQLite store open, whose locks SQLite would take for its own; \
         close the store before forking, make the first call after it, or start processes by 'spawn'",
    ))
}

/// A SQLite file, which counts as open in this process until this value is dropped.
#[derive(Debug)]
pub(crate) struct OpenFile {
    process: u32,
}

impl OpenFile {
    pub(crate) fn new() -> Self {
        FILES.fetch_add(1, Ordering::Relaxed);
        Self { process: process::id() }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if self.process == process::id() {
            FILES.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
