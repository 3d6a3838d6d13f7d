//! Replaces the relay on systems where the driver knows no sockets in the file system.

use std::io;
use std::path::PathBuf;

use rustls::ClientConfig;

/// A relay that cannot exist here.
#[derive(Debug)]
pub(super) enum Relay {}

impl Relay {
    pub(super) fn start(_: String, _: u16, _: ClientConfig) -> io::Result<Self> {
        Err(io::Error::other("on this system, certificates of version 1 or of authorities cannot be used"))
    }

    pub(super) fn socket(&self) -> PathBuf {
        match *self {}
    }

    pub(super) fn failure(&self) -> Option<io::Error> {
        match *self {}
    }
}
