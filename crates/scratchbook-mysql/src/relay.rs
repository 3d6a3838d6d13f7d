//! TLS for servers whose certificates the driver refuses, although MySQL's own clients accept them: certificates of
//! X.509 version 1, and certificates of an authority of their own.
//!
//! The driver makes its TLS itself, and its checks cannot be chosen. So it connects to a socket in a folder of ours, and
//! what passes there is carried to the server, with TLS that checks what `sslmode` says. Only the login is read and
//! changed: it contains the request for TLS, which the driver does not know about.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

/// The bytes of a packet before its content: its length in three bytes, and its number.
const HEADER: usize = 4;

/// How many bytes of the client's first packet are also the request for TLS: capabilities, sizes and character set.
const TLS_REQUEST: usize = 32;

/// Asks for TLS, in the second byte of the capabilities.
const CLIENT_SSL: u8 = 0x08;

/// No packet of a login is longer.
const MAX_LOGIN: usize = 1 << 20;

/// How much is carried at a time in each direction.
const BUFFER: usize = 64 << 10;

/// A socket that leads to a server by TLS, as long as this value lives.
#[derive(Debug)]
pub(super) struct Relay {
    folder: TempDir,
    accepting: AbortHandle,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Relay {
    pub(super) fn start(host: String, port: u16, tls: ClientConfig) -> io::Result<Self> {
        let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
        // Only our user can enter the folder.
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("scratchbook-").permissions(private).tempdir()?;
        let listener = UnixListener::bind(socket_in(&folder))?;
        let failure = Arc::<Mutex<Option<io::Error>>>::default();
        let failed = Arc::clone(&failure);
        let tls = TlsConnector::from(Arc::new(tls));
        let accepting = tokio::spawn(async move {
            loop {
                let mut client = match listener.accept().await {
                    Ok((client, _)) => client,
                    // Such as a lack of file descriptors, which passes.
                    Err(error) => {
                        tracing::warn!(%error, "a connection to the relay of the database cannot be accepted");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                };
                let host = host.clone();
                let name = name.clone();
                let tls = tls.clone();
                let failed = Arc::clone(&failed);
                tokio::spawn(async move {
                    let done = carry(&mut client, (&host, port), name, &tls).await;
                    // The driver only sees that the connection ends, which it does after this.
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = done.err();
                });
            }
        });
        Ok(Self { folder, accepting: accepting.abort_handle(), failure })
    }

    pub(super) fn socket(&self) -> PathBuf {
        socket_in(&self.folder)
    }

    /// Returns why the last connection ended, if it did not end in an orderly way.
    pub(super) fn failure(&self) -> Option<io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn socket_in(folder: &TempDir) -> PathBuf {
    Path::join(folder.path(), "s")
}

async fn carry(
    client: &mut UnixStream,
    address: (&str, u16),
    name: ServerName<'static>,
    tls: &TlsConnector,
) -> io::Result<()> {
    let mut server = TcpStream::connect(address).await?;
    server.set_nodelay(true)?;
    client.write_all(&packet(&mut server).await?).await?;
    let mut login = packet(client).await?;
    let (Some(request), Some(capabilities)) = (login.get(HEADER..HEADER + TLS_REQUEST), login.get(HEADER + 1)) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the login is too short"));
    };
    let capabilities = capabilities | CLIENT_SSL;
    let mut request = [&[TLS_REQUEST as u8, 0, 0, 1], request].concat();
    request[HEADER + 1] = capabilities;
    login[HEADER + 1] = capabilities;
    server.write_all(&request).await?;
    let mut server = tls.connect(name, server).await?;
    // The request was a packet of its own. Until the login ends, the server's numbers are therefore higher by one.
    login[3] = login[3].wrapping_add(1);
    server.write_all(&login).await?;
    loop {
        let mut answer = packet(&mut server).await?;
        answer[3] = answer[3].wrapping_sub(1);
        client.write_all(&answer).await?;
        match answer[HEADER..] {
            // The login was accepted or refused.
            [0x00 | 0xff, ..] => break,
            // The server knows the password already, and says next that the login was accepted.
            [0x01, 0x03] => continue,
            _ => {}
        }
        let mut reply = packet(client).await?;
        reply[3] = reply[3].wrapping_add(1);
        server.write_all(&reply).await?;
    }
    // The driver sees the end of the connection, and what the server said before it.
    let _ = copy_bidirectional_with_sizes(client, &mut server, BUFFER, BUFFER).await;
    Ok(())
}

/// Reads a packet of the login, with its header.
async fn packet(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; HEADER];
    from.read_exact(&mut packet).await?;
    let length = usize::from(packet[0]) | usize::from(packet[1]) << 8 | usize::from(packet[2]) << 16;
    if length > MAX_LOGIN {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet of the login is too long"));
    }
    packet.resize(HEADER + length, 0);
    from.read_exact(&mut packet[HEADER..]).await?;
    Ok(packet)
}
