//! Makes the shipped files: an archive with the command, a wheel and a source package. Each file is then used on its
//! own, as a new user would.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::build::checked;
use crate::command::{cargo, output, program, root, run};
use crate::package::{self, SHIPPED};
use crate::release;
use crate::step::Stop;
use crate::tools::is_there;

/// The folder for the shipped files.
const FOLDER: &str = "target/shipped";
/// The folder in which the archive is unpacked.
const UNPACKED: &str = "target/package/unpacked";
/// The features of the command besides its default ones, as in the image.
const FEATURES: &str = "full";
/// The files in an archive besides the program.
const BESIDE: [&str; 4] = ["LICENSE", "README.md", "CHANGELOG.md", "deploy"];
/// How long a program may take to end after a signal.
const PATIENCE: Duration = Duration::from_secs(20);

/// The options of `cargo xtask dist`.
#[derive(Debug, PartialEq)]
pub(crate) struct DistOptions {
    /// The profile of Cargo.
    profile: String,
    /// The platform; by default, the platform of this machine.
    target: Option<String>,
    parts: Vec<DistPart>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum DistPart {
    Archive,
    Wheel,
    Source,
}

impl Default for DistOptions {
    fn default() -> Self {
        Self {
            profile: SHIPPED.to_owned(),
            target: None,
            parts: vec![DistPart::Archive, DistPart::Wheel, DistPart::Source],
        }
    }
}

impl DistOptions {
    /// Reads the arguments of `cargo xtask dist`; `None` if they are invalid.
    pub(crate) fn of(arguments: &[&str]) -> Option<Self> {
        let (mut options, mut parts) = (Self::default(), Vec::new());
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            match *word {
                "archive" => parts.push(DistPart::Archive),
                "wheel" => parts.push(DistPart::Wheel),
                "source" => parts.push(DistPart::Source),
                "--profile" => options.profile = (*rest.next()?).to_owned(),
                "--target" => options.target = Some((*rest.next()?).to_owned()),
                _ => return None,
            }
        }
        if !parts.is_empty() {
            options.parts = parts;
        }
        Some(options)
    }
}

/// Makes and tests the shipped files.
pub(crate) fn make(options: &DistOptions) -> Result<(), Stop> {
    package::empty(&[FOLDER, UNPACKED])?;
    fs::create_dir_all(root().join(FOLDER)).map_err(|error| Stop::Failed(format!("{FOLDER}: {error}")))?;
    for part in &options.parts {
        match part {
            DistPart::Archive => use_command(&unpacked(&archive(options)?)?)?,
            DistPart::Wheel => {
                package::wheel(FOLDER, &options.profile)?;
                use_command(&package::installed_from(FOLDER)?.join(executable()))?;
            }
            DistPart::Source => {
                package::source_into(FOLDER)?;
                let wheel = package::wheel_of_source(FOLDER)?;
                use_command(&package::installed_from(wheel)?.join(executable()))?;
            }
        }
    }
    sums()
}

fn executable() -> String {
    format!("scratchbook{}", std::env::consts::EXE_SUFFIX)
}

/// Builds the command and packs it. Returns the name of the folder in the archive.
fn archive(options: &DistOptions) -> Result<String, Stop> {
    let DistOptions { profile, target, .. } = options;
    let words = ["build", "--bin", "scratchbook", "--profile", profile];
    let mut build = if profile == "dev" { checked(&words) } else { cargo(&words) };
    if profile == "dev" {
        // The arguments are those of the tests' build, so that nothing is built again.
        build.args(["--workspace", "--all-features"]);
    } else {
        build.args(["--package", "scratchbook-cli", "--features", FEATURES]);
    }
    if let Some(target) = target {
        build.args(["--target", target]);
    }
    if *profile == SHIPPED {
        build.env("RUSTFLAGS", package::remapped(&package::private_folders()));
    }
    run(&mut build)?;
    let built = root().join("target").join(target.as_deref().unwrap_or_default());
    let built = built.join(if profile == "dev" { "debug" } else { profile }).join(executable());
    let platform = target.clone().map_or_else(host, Ok)?;
    let name = format!("scratchbook-{}-{platform}", release::version()?);
    let folder = root().join(UNPACKED).join("packing").join(&name);
    let failed = |error: std::io::Error| Stop::Failed(format!("{}: {error}", folder.display()));
    fs::create_dir_all(&folder).map_err(failed)?;
    fs::copy(&built, folder.join(executable())).map_err(failed)?;
    for file in BESIDE {
        copy(&root().join(file), &folder.join(file)).map_err(failed)?;
    }
    let mut tar = program("tar");
    tar.arg("-C").arg(root().join(UNPACKED).join("packing"));
    // On Windows, `tar` is bsdtar, which chooses the format by the name of the file.
    let packed = if platform.contains("windows") { format!("{name}.zip") } else { format!("{name}.tgz") };
    let how: &[&str] = if platform.contains("windows") { &["-a", "-cf"] } else { &["-czf"] };
    run(tar.args(how).arg(root().join(FOLDER).join(packed)).arg(&name))?;
    Ok(name)
}

/// Unpacks the archive into an empty folder. Returns the path of the program.
fn unpacked(name: &str) -> Result<PathBuf, Stop> {
    package::empty(&[UNPACKED])?;
    let folder = root().join(UNPACKED);
    fs::create_dir_all(&folder).map_err(|error| Stop::Failed(format!("{UNPACKED}: {error}")))?;
    let packed = [".tgz", ".zip"].map(|end| root().join(FOLDER).join(format!("{name}{end}")));
    let packed = packed.iter().find(|path| path.is_file());
    let packed = packed.ok_or_else(|| Stop::Failed(format!("{FOLDER} has no archive {name}")))?;
    run(program("tar").arg("-C").arg(&folder).arg("-xf").arg(packed))?;
    Ok(folder.join(name).join(executable()))
}

/// Returns the platform of this machine.
fn host() -> Result<String, Stop> {
    let said = output(program("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Stop::Failed("rustc does not say what it builds for".to_owned()))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Writes the checksums to a file for `sha256sum --check`.
fn sums() -> Result<(), Stop> {
    let sums = ["sha256sum", "shasum"].into_iter().find(|name| is_there(name, &["--version"]));
    let Some(sums) = sums else { return Ok(()) };
    let failed = |error: std::io::Error| Stop::Failed(format!("{FOLDER}: {error}"));
    let folder = root().join(FOLDER);
    let files = fs::read_dir(&folder).map_err(failed)?.map(|entry| entry.map(|entry| entry.file_name()));
    let mut files: Vec<_> = files.collect::<Result<_, _>>().map_err(failed)?;
    files.sort();
    let mut command = program(sums);
    if sums == "shasum" {
        command.args(["-a", "256"]);
    }
    let text = output(command.current_dir(&folder).args(files))?;
    print!("{text}");
    fs::write(folder.join("SHA256SUMS"), text).map_err(failed)
}

/// Uses the command as its first user would, in an empty folder: a conversation without a network, and a server.
fn use_command(path: &Path) -> Result<(), Stop> {
    println!("$ {} --version, chat, serve, health", path.display());
    let folder = root().join("target/package/empty");
    package::empty(&["target/package/empty"])?;
    fs::create_dir_all(&folder).map_err(|error| Stop::Failed(error.to_string()))?;
    let command = |words: &[&str]| {
        let mut command = Command::new(path);
        command.args(words).current_dir(&folder).stdin(Stdio::null()).env_clear();
        // The script of a Python package finds its programs by `PATH`. Windows needs its own variables.
        command.envs(["PATH", "SystemRoot"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command
    };
    let version = said(command(&["--version"]), "")?;
    expect(version.trim() == format!("scratchbook {}", release::version()?), "--version", &version)?;
    let answer = said(command(&["chat", "--database", "sqlite://a.db", "--session", "s1"]), "Add two apples\n")?;
    expect(answer.contains("2 x apples"), "chat", &answer)?;
    let shown =
        said(command(&["sessions", "show", "-d", "sqlite://a.db", "-a", "demo", "-u", "user", "-s", "s1"]), "")?;
    expect(shown.contains("add_to_cart"), "sessions show", &shown)?;
    let wrong = command(&["no-such-command"]).output().map_err(|error| Stop::Failed(error.to_string()))?;
    expect(wrong.status.code() == Some(2), "the exit code of a wrong word", &wrong.status.to_string())?;
    serve(command(&["--json", "serve", "--port", "0", "--database", "sqlite://a.db"]), |url| {
        let ready = said(command(&["health", url]), "")?;
        expect(ready.contains("is ready"), "health", &ready)
    })
}

/// Runs a program with this input, and returns its standard output. The program has to succeed.
fn said(mut command: Command, input: &str) -> Result<String, Stop> {
    let failed = |error: std::io::Error| Stop::Failed(error.to_string());
    let mut started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut stdin) = started.stdin.take() {
        // A program may end without reading its input.
        let _ = stdin.write_all(input.as_bytes());
    }
    let ended = started.wait_with_output().map_err(failed)?;
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    if ended.status.success() { Ok(text) } else { Err(Stop::Failed(format!("{}: {text}", ended.status))) }
}

fn expect(holds: bool, what: &str, said: &str) -> Result<(), Stop> {
    if holds { Ok(()) } else { Err(Stop::Failed(format!("{what}: {said}"))) }
}

/// Starts a server, uses it by its URL, and ends it with the signal of Ctrl-C.
fn serve(mut command: Command, used: impl FnOnce(&str) -> Result<(), Stop>) -> Result<(), Stop> {
    let failed = |error: std::io::Error| Stop::Failed(error.to_string());
    let mut server = command.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut line = String::new();
    let read = server.stdout.take().map(|stdout| BufReader::new(stdout).read_line(&mut line));
    let greeting: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
    let outcome = match greeting["url"].as_str() {
        Some(url) => used(url),
        None => Err(Stop::Failed(format!("serve: {line}, {read:?}"))),
    };
    let ended = end(&mut server);
    let code = outcome.and(ended.map_err(failed))?;
    // Windows has no such signal.
    expect(code == Some(0) || cfg!(windows), "the exit code after Ctrl-C", &format!("{code:?}"))
}

fn end(server: &mut Child) -> std::io::Result<Option<i32>> {
    let begun = Instant::now();
    let signalled = Command::new("kill").args(["-INT", &server.id().to_string()]).status();
    while signalled.as_ref().is_ok_and(|status| status.success()) && begun.elapsed() < PATIENCE {
        if let Some(status) = server.try_wait()? {
            return Ok(status.code());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    server.kill()?;
    Ok(server.wait()?.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_say_what_is_made() {
        assert_eq!(DistOptions::of(&[]), Some(DistOptions::default()));
        let options = DistOptions::of(&["wheel", "--profile", "dev", "--target", "x"]).unwrap();
        assert_eq!((options.profile.as_str(), options.target.as_deref()), ("dev", Some("x")));
        assert_eq!(options.parts, [DistPart::Wheel]);
        for wrong in [&["--profile"][..], &["crate"], &["--help"]] {
            assert_eq!(DistOptions::of(wrong), None, "{wrong:?}");
        }
    }
}
