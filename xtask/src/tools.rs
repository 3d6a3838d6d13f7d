//! Installs programs that some steps need besides `cargo` and `rustc`: parts of the Rust toolchain into the toolchain,
//! all others into the target folder, so that nothing else outside the checkout changes. If a program cannot be
//! installed, its step is left out.

use std::path::PathBuf;
use std::process::Command;

use crate::command::{cargo, program, root, run};
use crate::step::Stop;

/// Installs `cargo NAME`, which is the component `component` of the toolchain, unless it is there.
pub(crate) fn component(name: &str, component: &str) -> Result<(), Stop> {
    if answers(cargo(&[name])) {
        return Ok(());
    }
    run(program("rustup").args(["component", "add", component]))
        .map_err(|_| Stop::LeftOut(format!("this toolchain has no {component}; install it")))
}

/// Checks that there is a C++ compiler, with which libFuzzer is built. Without a compiler, the step is left out.
pub(crate) fn cxx() -> Result<(), Stop> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    if answers(program(&compiler)) {
        return Ok(());
    }
    Err(Stop::LeftOut(format!("no C++ compiler '{compiler}'; on Debian it is in the package g++")))
}

/// Returns the package of wrk, a load generator, if it is not installed.
pub(crate) fn wrk() -> Option<&'static str> {
    // wrk prints its version with its usage and fails, so it is missing only if it cannot be started.
    program("wrk").arg("--version").output().err().map(|_| "wrk")
}

/// Returns whether a program succeeds with these arguments.
pub(crate) fn is_there(name: &str, words: &[&str]) -> bool {
    program(name).args(words).output().is_ok_and(|output| output.status.success())
}

fn answers(mut command: Command) -> bool {
    command.arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A program from the crate registry, in the version for which these steps were written.
pub(crate) struct CargoTool {
    name: &'static str,
    version: &'static str,
}

pub(crate) const FUZZ: CargoTool = CargoTool { name: "cargo-fuzz", version: "0.13.2" };
pub(crate) const MDBOOK: CargoTool = CargoTool { name: "mdbook", version: "0.5.4" };
pub(crate) const DENY: CargoTool = CargoTool { name: "cargo-deny", version: "0.20.2" };

impl CargoTool {
    /// Returns the path of the program. Installs it first if it is missing.
    pub(crate) fn path(&self) -> Result<PathBuf, Stop> {
        if let Some(found) = self.found() {
            return Ok(found);
        }
        let into = root().join("target/tools");
        let into = into.to_string_lossy();
        // The build is unoptimized: the program runs only a few times, and a new machine has to build it first.
        let install = ["install", "--debug", "--root", &into, self.name, "--version", self.version];
        run(&mut cargo(&install)).map_err(|stop| match stop {
            Stop::Failed(why) => Stop::LeftOut(format!("{} could not be installed: {why}", self.name)),
            left_out => left_out,
        })?;
        self.found().ok_or_else(|| Stop::LeftOut(format!("{} was installed, but is not there", self.name)))
    }

    fn found(&self) -> Option<PathBuf> {
        let own = root().join("target/tools/bin");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let file = format!("{}{}", self.name, std::env::consts::EXE_SUFFIX);
        std::iter::once(own).chain(std::env::split_paths(&path)).map(|dir| dir.join(&file)).find(|path| path.is_file())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_installed() {
        assert_eq!(component("check", "cargo"), Ok(()));
        assert!(!answers(program("no-such-program")));
    }

    #[test]
    fn a_tool_that_cannot_be_had_leaves_its_step_out() {
        assert!(CargoTool { name: "rustc", version: "0" }.path().is_ok());
        let Err(Stop::LeftOut(why)) = CargoTool { name: "no such name", version: "0.0.0" }.path() else {
            panic!("no such tool can be installed");
        };
        assert!(why.contains("could not be installed"), "{why}");
    }
}
