//! Checks the files in `deploy/` with the programs that read them, or by their schemas.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{program, root, run};
use crate::packages;
use crate::python;
use crate::step::Stop;
use crate::tools::is_there;

/// The program that checks manifests by the schemas of Kubernetes, which it contains.
const VALIDATOR: &str = "kubernetes-validate==1.37.0";
/// The oldest and the newest version of Kubernetes that the manifests are for.
const KUBERNETES: [&str; 2] = ["1.30", "1.37"];

/// Runs the step `deploy`.
pub(crate) fn check() -> Result<(), Stop> {
    let (mut failed, mut missing) = (Vec::new(), Vec::new());
    for result in [units(), manifests(), compose()] {
        match result {
            Ok(()) => {}
            Err(Stop::Failed(why)) => failed.push(why),
            Err(Stop::LeftOut(why)) => missing.push(why),
        }
    }
    if !failed.is_empty() {
        return Err(Stop::Failed(failed.join("; ")));
    }
    if missing.is_empty() { Ok(()) } else { Err(Stop::LeftOut(format!("not here: {}", missing.join(", ")))) }
}

/// Checks the systemd units. Our program is not installed here, so another one takes its place.
fn units() -> Result<(), Stop> {
    if !is_there("systemd-analyze", &["--version"]) {
        return Err(Stop::LeftOut("systemd-analyze".to_owned()));
    }
    let folder = root().join("target/deploy/systemd");
    let units = copy(&root().join("deploy/systemd"), &folder)
        .map_err(|error| Stop::Failed(format!("{}: {error}", folder.display())))?;
    // The colon at the end adds the system's own units after ours.
    let path = format!("{}:", folder.display());
    let mut verify = program("systemd-analyze");
    let verified = verify.arg("verify").args(units).env("SYSTEMD_UNIT_PATH", path).output();
    let verified = verified.map_err(|error| Stop::Failed(format!("systemd-analyze: {error}")))?;
    // systemd only warns about unknown settings, and may also warn about units of this machine.
    let said = String::from_utf8_lossy(&verified.stderr);
    let ours: Vec<_> = said.lines().filter(|line| line.contains("scratchbook")).collect();
    if verified.status.success() && ours.is_empty() { Ok(()) } else { Err(Stop::Failed(ours.join("; "))) }
}

/// Copies the units and the folders beside them, and returns the units.
fn copy(from: &Path, to: &Path) -> std::io::Result<Vec<String>> {
    fs::create_dir_all(to)?;
    let mut units = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::write(&target, fs::read_to_string(&path)?.replace("/usr/local/bin/scratchbook", "/bin/true"))?;
            units.push(target.display().to_string());
        }
    }
    units.sort();
    Ok(units)
}

fn manifests() -> Result<(), Stop> {
    let python = python::with_package(VALIDATOR)?;
    for version in KUBERNETES {
        let mut validate = program(&python);
        validate.args(["-m", "kubernetes_validate", "--strict", "--kubernetes-version", version]);
        run(validate.arg("deploy/kubernetes/scratchbook.yaml"))?;
    }
    Ok(())
}

fn compose() -> Result<(), Stop> {
    packages::ensure(|| if docker_compose().is_some() { Vec::new() } else { vec!["docker-compose"] })?;
    let mut command = docker_compose().ok_or_else(|| Stop::LeftOut("docker compose".to_owned()))?;
    command.args(["-f", "deploy/compose.yaml", "config", "--quiet"]);
    run(command.env("POSTGRES_PASSWORD", "secret"))
}

/// Returns a call of Docker Compose, in its current or its older form, if it is installed.
fn docker_compose() -> Option<Command> {
    let forms = [("docker", &["compose"][..]), ("docker-compose", &[])];
    let (name, words) = forms.into_iter().find(|(name, words)| is_there(name, &[words, &["version"][..]].concat()))?;
    let mut command = program(name);
    command.args(words);
    Some(command)
}
