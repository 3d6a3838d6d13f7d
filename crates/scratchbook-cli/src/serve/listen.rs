//! The listening socket.

use std::io;
use std::net::SocketAddr;

use scratchbook::{Error, ErrorKind};
use tokio::net::{TcpListener, TcpSocket, lookup_host};

/// How many connections the system queues until they are accepted. Clients beyond this number retry after a second, so
/// the usual 128 would delay some clients in a burst.
const BACKLOG: u32 = 4096;

/// Listens on the first address of a host that can be bound.
pub(super) async fn listen(host: &str, port: u16) -> Result<TcpListener, Error> {
    let addresses: Vec<_> = lookup_host((host, port))
        .await
        .map_err(|e| {
            let message =
                format!("'{host}' is no address of this machine; give --host an IP address, such as 127.0.0.1");
            Error::invalid(message).with_source(e)
        })?
        .collect();
    let mut failed = io::ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        match bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(refused(host, port, failed))
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // This lets a restarted server get its port at once.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Returns the address of a listener.
pub(super) fn address(listener: &TcpListener) -> Result<SocketAddr, Error> {
    listener.local_addr().map_err(|e| Error::new(ErrorKind::Unavailable, "the listener has no address").with_source(e))
}

fn refused(host: &str, port: u16, error: io::Error) -> Error {
    let (kind, message) = match error.kind() {
        io::ErrorKind::AddrInUse => (
            ErrorKind::FailedPrecondition,
            format!("port {port} of {host} is in use; choose another with --port, or any free one with --port 0"),
        ),
        io::ErrorKind::PermissionDenied => (
            ErrorKind::PermissionDenied,
            format!("port {port} is not for this user; choose one above 1023 with --port"),
        ),
        io::ErrorKind::AddrNotAvailable => (
            ErrorKind::InvalidArgument,
            format!("{host} is not an address of this machine; give --host one that is, such as 127.0.0.1"),
        ),
        _ => (ErrorKind::Unavailable, format!("{host} cannot be listened on at port {port}")),
    };
    Error::new(kind, message).with_source(error)
}
