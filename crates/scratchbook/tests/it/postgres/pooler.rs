//! A pooler that lets no settings through, as PgBouncer does unless it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use scratchbook::PostgresSessionService;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::server::Schema;
use crate::database::{append, create, get, key, setting};

/// Listens before a server and refuses who asks for `options`; counts the refused.
async fn start(server: String) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, refused) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&refused);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, server.clone(), Arc::clone(&count)));
        }
    });
    (port, refused)
}

async fn serve(mut client: TcpStream, server: String, refused: Arc<AtomicUsize>) -> std::io::Result<()> {
    let length = client.read_u32().await?;
    let mut startup = vec![0; length as usize - 4];
    client.read_exact(&mut startup).await?;
    if startup.windows(9).any(|bytes| bytes == b"\0options\0") {
        refused.fetch_add(1, Relaxed);
        let fields = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0";
        client.write_all(&[b"E\0\0\0", &[fields.len() as u8 + 4][..], fields].concat()).await?;
        return Ok(());
    }
    let mut server = TcpStream::connect(server).await?;
    server.write_u32(length).await?;
    server.write_all(&startup).await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

#[tokio::test]
async fn a_pooler_that_refuses_settings_is_asked_without_them() {
    let schema = Schema::new();
    let place = schema.server().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let (port, refused) = start(place.clone()).await;
    let server = schema.server().replacen(&place, &format!("127.0.0.1:{port}"), 1);
    let service = PostgresSessionService::connect(&schema.uri_by(&server, "&sslmode=disable")).await.unwrap();
    create(&service, "s", json!({"app:a": 1})).await;
    for n in 0..20 {
        append(&service, &key("s"), setting("n", n)).await.unwrap();
    }
    assert_eq!(get(&service, &key("s")).await.unwrap().seq(), 20);
    assert_eq!(refused.load(Relaxed), 1, "it is remembered");
}
