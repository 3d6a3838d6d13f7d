//! The compiled part of the Python package `scratchbook`: stores, with JSON at the border.
//!
//! The Python part of the package (`python/scratchbook/`) knows google-adk's types, exceptions and URLs; this part
//! knows none of them. A method here returns a `Call`, which is awaited or waited for.
//!
//! # Layout
//!
//! - `store.rs`: the class `Store`, a method for each call; `artifacts.rs`: the class `Artifacts`, the artifacts of a
//!   store; `watch.rs`: the class `Watch`, which follows a feed.
//! - `call.rs`: a call, awaited or waited for; `port.rs`: how an event loop is notified of its end.
//! - `runtime.rs`: the threads that run calls, and their state after a fork; `ending.rs`: the interpreter's exit.
//! - `opened.rs`: a store that is opened at its first call.
//! - `command.rs`: the command `scratchbook`.
//! - `creation.rs`, `operations.rs`, `seen.rs`, `shape.rs`: the values at the border, as JSON; `error.rs`: as
//!   exceptions.

mod artifacts;
mod call;
#[cfg_attr(not(feature = "command"), path = "no_command.rs")]
mod command;
mod creation;
mod ending;
mod error;
mod opened;
mod operations;
mod port;
mod runtime;
mod seen;
mod shape;
mod store;
mod watch;

/// The module that Python imports as `scratchbook._scratchbook`.
#[pyo3::pymodule(name = "_scratchbook")]
mod module {
    use pyo3::prelude::*;
    use pyo3::wrap_pyfunction;

    use crate::ending::before_exit;
    use crate::runtime::after_fork;

    #[pymodule_export]
    use crate::artifacts::PyArtifacts;
    #[pymodule_export]
    use crate::call::{Call, set_waits, waits};
    #[pymodule_export]
    use crate::command::run_command;
    #[pymodule_export]
    use crate::seen::advance;
    #[pymodule_export]
    use crate::store::PyStore;
    #[pymodule_export]
    use crate::watch::PyWatch;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("REMOVED", scratchbook::state::REMOVED)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let before_exit = wrap_pyfunction!(before_exit, module)?;
        module.py().import("atexit")?.call_method1("register", (before_exit,))?;
        let after_fork = wrap_pyfunction!(after_fork, module)?;
        let os = module.py().import("os")?;
        // Windows has no fork.
        if let Some(register) = os.getattr_opt("register_at_fork")? {
            let arguments = pyo3::types::PyDict::new(module.py());
            arguments.set_item("after_in_child", after_fork)?;
            register.call((), Some(&arguments))?;
        }
        Ok(())
    }
}
