//! A server as a process, as in the tests of the command.

#[allow(dead_code)]
#[path = "../../../scratchbook-cli/tests/cli/serve/http.rs"]
mod http;
#[allow(dead_code)]
#[path = "../../../scratchbook-cli/tests/cli/serve/served.rs"]
mod served;

pub(crate) use served::Served;
