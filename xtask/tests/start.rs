//! Tests the script `start`, with stand-ins for Rust, its installer and the command.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// A program that writes each call to a file that the tests read.
const LOG: &str = "#!/bin/sh\necho \"$(basename \"$0\") $*\" >>\"$CALLS\"\n";

/// A Cargo that knows four crates and builds them, unless its user wants the build to fail.
const CARGO: &str = "#!/bin/sh
[ \"$1\" != tree ] || { printf 'a v1\\nb v1 (*)\\nb v1\\nc v1\\nd v1\\n'; exit 0; }
echo \"cargo $*\" >>\"$CALLS\"
[ \"$1\" != build ] || { printf '   Compiling a v1\\n   Compiling b v1\\nerror: it is broken\\n' >&2; }
[ ! -e broken ]
";

/// A checkout with only the script, and a `PATH` with only the programs that the script needs.
struct Checkout {
    folder: TempDir,
}

impl Checkout {
    fn new() -> Self {
        let checkout = Self { folder: tempfile::tempdir().unwrap() };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for file in ["start", "Cargo.toml"] {
            fs::copy(root.join(file), checkout.path(file)).unwrap();
        }
        fs::create_dir_all(checkout.path("bin")).unwrap();
        fs::create_dir_all(checkout.path("cargo/bin")).unwrap();
        for program in ["sh", "sed", "dirname", "basename", "cat", "chmod", "mkdir", "sort", "wc"] {
            let found = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(program));
            symlink(found.iter().find(|path| path.exists()).unwrap(), checkout.path("bin").join(program)).unwrap();
        }
        checkout.program("bin/cc", LOG);
        checkout
    }

    /// Creates a checkout with a Rust of this version.
    fn with_rust(version: &str) -> Self {
        let checkout = Self::new();
        checkout.program("bin/rustc", &format!("#!/bin/sh\necho 'rustc {version} (0000 2026-01-01)'\n"));
        checkout.program("bin/cargo", CARGO);
        checkout.program("bin/nproc", "#!/bin/sh\necho 2\n");
        // This is what `cargo` would have built.
        checkout
            .program("target/release/scratchbook", &format!("{LOG}[ \"$1\" = chat ] && cat >>\"$CALLS\"\nexit 0\n"));
        checkout
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the script, with an answer to its question.
    fn start(&self, args: &[&str], answer: &str) -> Output {
        let mut command = Command::new(self.path("start"));
        command.args(args).env_clear().env("PATH", self.path("bin")).env("HOME", self.folder.path());
        command.env("CARGO_HOME", self.path("cargo")).env("CALLS", self.path("calls"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut started = command.spawn().unwrap();
        // The script may end without reading the answer.
        let _ = started.stdin.take().unwrap().write_all(answer.as_bytes());
        started.wait_with_output().unwrap()
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The calls that the script makes with the option `--port 8080`.
const SERVED: &str = "cargo build --locked --release --package scratchbook-cli\n\
    scratchbook chat --user me --session hello\nAdd two apples and a book, please\nMy name is Ann\n\
    scratchbook sessions show --app demo --user me --session hello\n\
    scratchbook serve --log-level warn --show apps/demo/users/me/sessions/hello --port 8080\n";

#[test]
fn it_builds_holds_a_conversation_and_serves_it() {
    for version in ["1.92.0", "1.100.0-nightly", "2.0.0"] {
        let checkout = Checkout::with_rust(version);
        let output = checkout.start(&["--port", "8080"], "");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(checkout.calls(), SERVED, "{version}");
        let said = said(&output);
        assert!(said.contains("Building 4 of 4 crates takes about ") && said.contains("2 cores"), "{said}");
        assert!(said.contains("  1 of about 4 crates\n  2 of about 4 crates\n"), "{said}");
    }
}

#[test]
fn crates_that_are_built_already_shorten_the_time() {
    let checkout = Checkout::with_rust("1.92.0");
    for name in ["a", "b", "c"] {
        checkout.program(&format!("target/release/.fingerprint/{name}-1/lib-{name}.json"), "");
    }
    let some = said(&checkout.start(&[], ""));
    assert!(some.contains("Building 1 of 4 crates takes about "), "{some}");
    checkout.program("target/release/.fingerprint/d-1/lib-d.json", "");
    let all = said(&checkout.start(&[], ""));
    assert!(!all.contains("takes about"), "{all}");
}

#[test]
fn a_build_that_fails_starts_nothing() {
    let checkout = Checkout::with_rust("1.92.0");
    fs::write(checkout.path("broken"), "").unwrap();
    let output = checkout.start(&[], "");
    assert!(!output.status.success() && said(&output).contains("error: it is broken"), "{output:?}");
    assert!(!checkout.calls().contains("scratchbook serve"), "{}", checkout.calls());
}

#[test]
fn a_level_of_logs_that_is_named_is_used() {
    let checkout = Checkout::with_rust("1.92.0");
    assert!(checkout.start(&["--log-level", "debug"], "").status.success());
    let calls = checkout.calls();
    assert!(calls.ends_with("serve --show apps/demo/users/me/sessions/hello --log-level debug\n"), "{calls}");
}

#[test]
fn a_database_that_is_there_or_named_is_left_alone() {
    let checkout = Checkout::with_rust("1.92.0");
    fs::write(checkout.path("scratchbook.db"), "").unwrap();
    assert!(checkout.start(&[], "").status.success());
    let checkout_of_others = Checkout::with_rust("1.92.0");
    assert!(checkout_of_others.start(&["--database", "memory:"], "").status.success());
    for calls in [checkout.calls(), checkout_of_others.calls()] {
        assert!(calls.contains("scratchbook serve") && !calls.contains("chat"), "{calls}");
    }
}

#[test]
fn it_runs_the_tests() {
    let checkout = Checkout::with_rust("1.92.0");
    let output = checkout.start(&["test", "--list"], "");
    assert!(output.status.success() && said(&output).contains("minutes"), "{output:?}");
    assert_eq!(checkout.calls(), "cargo xtask test --list\n");
}

#[test]
fn rust_is_installed_after_a_yes_alone() {
    let checkout = Checkout::new();
    // The installer leaves the programs that `with_rust` creates.
    let installer = Checkout::with_rust("1.92.0");
    let installed = |name: &str, to: &str| {
        let (from, to) = (installer.path(name), checkout.path(to));
        format!(
            "mkdir -p '{}'; cat '{}' >'{}'; chmod 755 '{}'\n",
            to.parent().unwrap().display(),
            from.display(),
            to.display(),
            to.display()
        )
    };
    let scripts = [("bin/rustc", "cargo/bin/rustc"), ("bin/cargo", "cargo/bin/cargo")];
    let scripts = scripts.map(|(from, to)| installed(from, to)).concat()
        + &installed("target/release/scratchbook", "target/release/scratchbook");
    checkout.program("bin/curl", &format!("{LOG}cat <<'END'\necho \"installer $*\" >>\"$CALLS\"\n{scripts}END\n"));
    for answer in ["", "\n", "n\n", "maybe\n"] {
        let output = checkout.start(&[], answer);
        assert_eq!(output.status.code(), Some(1), "{answer:?}: {output:?}");
        assert!(said(&output).contains("https://sh.rustup.rs | sh -s -- -y --profile minimal"), "{output:?}");
        assert_eq!(checkout.calls(), "", "{answer:?}");
    }
    let output = checkout.start(&["--port", "8080"], "y\n");
    assert!(output.status.success(), "{output:?}");
    let by = "curl --proto =https --tlsv1.2 -sSf https://sh.rustup.rs\ninstaller -y --profile minimal\n";
    assert_eq!(checkout.calls(), format!("{by}{SERVED}"));
}

#[test]
fn beside_an_older_rust_rustup_installs_another() {
    let checkout = Checkout::with_rust("1.91.1");
    checkout.program("bin/rustup", LOG);
    let output = checkout.start(&[], "n\n");
    let said_no = said(&output);
    assert!(said_no.contains("needs Rust 1.92 or newer, and finds 1.91") && checkout.calls().is_empty(), "{said_no}");
    let output = checkout.start(&[], "yes\n");
    // The stand-in installs nothing.
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("There is still no Rust 1.92"), "{output:?}");
    assert_eq!(checkout.calls(), "rustup toolchain install stable --profile minimal\n");
}

#[test]
fn without_a_c_compiler_it_says_how_to_get_one() {
    let checkout = Checkout::with_rust("1.92.0");
    fs::remove_file(checkout.path("bin/cc")).unwrap();
    let output = checkout.start(&[], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("apt-get install build-essential"), "{output:?}");
    assert_eq!(checkout.calls(), "");
}
