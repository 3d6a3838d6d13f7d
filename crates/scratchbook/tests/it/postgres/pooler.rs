//! Poolers that pass on no settings: PgBouncer by default, and RDS Proxy always.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use scratchbook::store::PostgresSessionService;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::server::TestSchema;
use crate::database::{append, create, get, key, setting};

/// Listens in front of a server, refuses connections with `options`, and counts these refusals.
pub(super) async fn start(server: String, answer: &'static str) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, refused) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&refused);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, server.clone(), Arc::clone(&count), answer));
        }
    });
    (port, refused)
}

async fn serve(mut client: TcpStream, server: String, refused: Arc<AtomicUsize>, answer: &str) -> std::io::Result<()> {
    let length = client.read_u32().await?;
    let mut startup = vec![0; length as usize - 4];
    client.read_exact(&mut startup).await?;
    if startup.windows(9).any(|bytes| bytes == b"\0options\0") {
        refused.fetch_add(1, Relaxed);
        let fields = format!("SFATAL\0C{answer}\0\0");
        client.write_all(&[b"E\0\0\0", &[fields.len() as u8 + 4][..], fields.as_bytes()].concat()).await?;
        return Ok(());
    }
    let mut server = TcpStream::connect(server).await?;
    server.write_u32(length).await?;
    server.write_all(&startup).await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

pub(super) const PGBOUNCER: &str = "08P01\0Munsupported startup parameter: options";
const RDS_PROXY: &str =
    "0A000\0MFeature not supported: RDS Proxy currently doesn\u{2019}t support command-line options.";

/// Returns the server's URI with the pooler's port.
pub(super) fn by_way_of(server: &str, port: u16) -> String {
    server.replacen(&place(server), &format!("127.0.0.1:{port}"), 1)
}

/// Returns the host and the port in a URI.
pub(super) fn place(server: &str) -> String {
    server.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_pooler_that_refuses_settings_is_asked_without_them() {
    for answer in [PGBOUNCER, RDS_PROXY] {
        let schema = TestSchema::new();
        let (port, refused) = start(place(schema.server()), answer).await;
        let server = by_way_of(schema.server(), port);
        let service = PostgresSessionService::connect(&schema.uri_by(&server, "&sslmode=disable")).await.unwrap();
        create(&service, "s", json!({"app:a": 1})).await;
        for n in 0..20 {
            append(&service, &key("s"), setting("n", n)).await.unwrap();
        }
        assert_eq!(get(&service, &key("s")).await.unwrap().seq(), 20);
        assert_eq!(refused.load(Relaxed), 1, "it is remembered");
    }
}
