//! Installs the distribution's packages that some steps need, on machines where this needs no password.

use std::process::Command;

use crate::command::{program, run};
use crate::step::Stop;

/// Installs the packages that `missing` returns. `missing` checks for the packages' programs and returns the packages'
/// names.
pub(crate) fn ensure(missing: impl Fn() -> Vec<&'static str>) -> Result<(), Stop> {
    ensure_by(missing, install)
}

fn ensure_by(
    missing: impl Fn() -> Vec<&'static str>,
    install: impl FnOnce(&[&str]) -> Result<(), String>,
) -> Result<(), Stop> {
    let packages = missing();
    if packages.is_empty() {
        return Ok(());
    }
    install(&packages).map_err(|why| Stop::LeftOut(format!("missing: {}; {why}", packages.join(" "))))?;
    match missing().as_slice() {
        [] => Ok(()),
        rest => Err(Stop::LeftOut(format!("{} installed, but what it brings is not found", rest.join(" ")))),
    }
}

/// Installs missing packages, and neither upgrades nor removes existing ones. If a package conflicts with somebody's
/// database server, the installation therefore fails, and the step is left out.
const INSTALL: [&str; 5] = ["install", "--yes", "--no-install-recommends", "--no-upgrade", "--no-remove"];

fn install(packages: &[&str]) -> Result<(), String> {
    let Some(install) = apt_get(&INSTALL) else {
        return Err(format!(
            "this step may not install them, which takes apt-get and either root or sudo without a password. On \
             Debian and Ubuntu: apt-get install {}",
            packages.join(" ")
        ));
    };
    let mut install = with(install, packages);
    // The package lists may be old or absent, as in a container image.
    let installed = run(&mut install).or_else(|_| {
        if let Some(mut update) = apt_get(&["update"]) {
            // A failed update is ignored, because the installation reports what is missing.
            let _ = run(&mut update);
        }
        run(&mut install)
    });
    installed.map_err(|_| "they could not be installed; apt-get says above why".to_owned())
}

fn with(mut command: Command, words: &[&str]) -> Command {
    command.args(words);
    command
}

/// Returns a call of `apt-get` as root without questions; `None` if this process cannot be root.
fn apt_get(arguments: &[&str]) -> Option<Command> {
    let starts = |mut command: Command| command.output().is_ok_and(|output| output.status.success());
    if !starts(with(program("apt-get"), &["--version"])) {
        return None;
    }
    let is_root = with(program("id"), &["-u"]).output().is_ok_and(|output| output.stdout.starts_with(b"0\n"));
    // `sudo` clears the environment, so `env` sets the variable after it.
    let mut words = vec!["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
    words.extend_from_slice(arguments);
    if is_root {
        return Some(with(program(words[0]), &words[1..]));
    }
    starts(with(program("sudo"), &["-n", "true"])).then(|| with(with(program("sudo"), &["-n"]), &words))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_missing_is_installed_and_nothing_else() {
        let there = Cell::new(false);
        let missing = || if there.get() { vec![] } else { vec!["a", "b"] };
        let install = |packages: &[&str]| {
            assert_eq!(packages, ["a", "b"]);
            there.set(true);
            Ok(())
        };
        assert_eq!(ensure_by(missing, install), Ok(()));
        assert_eq!(ensure_by(missing, |_: &[&str]| panic!("nothing is missing")), Ok(()));
    }

    #[test]
    fn what_cannot_be_had_is_left_out_with_the_reason() {
        let Err(Stop::LeftOut(why)) = ensure_by(|| vec!["a"], |_: &[&str]| Err("no right".into())) else {
            panic!("not installed");
        };
        assert_eq!(why, "missing: a; no right");
        let Err(Stop::LeftOut(why)) = ensure_by(|| vec!["a"], |_: &[&str]| Ok(())) else { panic!("not found") };
        assert!(why.contains("a installed"), "{why}");
    }
}
