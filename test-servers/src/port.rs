//! Ports for servers.

use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;

use crate::{Error, Result};

/// The first port. All ports are below those that systems give to outgoing connections, so no connection takes a port
/// while its server restarts.
const FIRST: u16 = 15_000;
/// The number of ports.
const COUNT: u16 = 15_000;

/// Returns a port that is free, like the port after it.
pub(crate) fn free() -> Result<u16> {
    for _ in 0..200 {
        // Two processes that search at the same time should not find the same port.
        let port = FIRST + u16::try_from(random() % u64::from(COUNT)).unwrap_or_default();
        if is_free(port) && is_free(port + 1) {
            return Ok(port);
        }
    }
    Err(Error::new(format!("no free port from {FIRST} to {}", FIRST + COUNT)))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Returns a number that cannot be guessed, from the seed of the standard library's hash maps.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
