//! Passes the version of the compiler that builds the server to `/version`.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=RUSTC");
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let said = Command::new(compiler).arg("--version").output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    // `rustc 1.92.0 (...)`
    let version = said.split_whitespace().nth(1).unwrap_or("unknown");
    println!("cargo::rustc-env=SCRATCHBOOK_RUSTC_VERSION={version}");
}
