//! ADK's own client with `scratchbook serve`. The client refuses responses with unknown keys.

use std::path::Path;
use std::process::{Command, Stdio};

use super::python::python;
use crate::Fixture;
use crate::serve::Served;

#[test]
fn the_strict_client_of_adk_takes_every_answer() {
    let fixture = Fixture::empty();
    let served = Served::new(&fixture, &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/google_adk/client.py");
    let mut command = Command::new(python());
    command.arg(script).arg(served.greeting["url"].as_str().unwrap()).stdin(Stdio::null());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "every answer was taken");
}
