//! Poolers that pass on no settings: PgBouncer by default, and RDS Proxy always.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use scratchbook::store::PostgresSessionService;
use scratchbook::{ErrorKind, SessionService};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

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

/// Listens in front of a server like a pooler in session mode: every connection is accepted, but only `most` at a time
/// have a connection to the server for their statements. The others wait.
async fn session_mode(server: String, most: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let slots = Arc::new(Semaphore::new(most));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve_session(client, server.clone(), Arc::clone(&slots)));
        }
    });
    port
}

async fn serve_session(client: TcpStream, server: String, slots: Arc<Semaphore>) -> std::io::Result<()> {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = TcpStream::connect(server).await?.into_split();
    let signed_in = Arc::new(AtomicBool::new(false));
    let signing = Arc::clone(&signed_in);
    let answers = tokio::spawn(async move {
        loop {
            let kind = from_server.read_u8().await?;
            let length = from_server.read_u32().await?;
            let mut rest = vec![0; length as usize - 4];
            from_server.read_exact(&mut rest).await?;
            // `ReadyForQuery`
            signing.fetch_or(kind == b'Z', Relaxed);
            to_client.write_all(&[&[kind][..], &length.to_be_bytes(), &rest].concat()).await?;
        }
        #[allow(unreachable_code)]
        std::io::Result::Ok(())
    });
    let mut slot = None;
    let mut bytes = vec![0; 1 << 16];
    loop {
        let length = from_client.read(&mut bytes).await?;
        if length == 0 {
            break;
        }
        if signed_in.load(Relaxed) && slot.is_none() {
            slot = slots.acquire().await.ok();
        }
        to_server.write_all(&bytes[..length]).await?;
    }
    answers.abort();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_with_fewer_connections_than_the_pool_is_served_by_those() {
    let schema = TestSchema::new();
    let port = session_mode(place(schema.server()), 2).await;
    let server = by_way_of(schema.server(), port);
    let uri = schema.uri_by(&server, "&sslmode=disable&pool_size=8&connect_timeout=3");
    let service = Arc::new(PostgresSessionService::connect(&uri).await.unwrap());
    create(&*service, "s", json!({})).await;
    let started = std::time::Instant::now();
    let calls = (0..64).map(|n| {
        let service = Arc::clone(&service);
        tokio::spawn(async move {
            for _ in 0..4 {
                get(&*service, &key("s")).await.unwrap();
            }
            append(&*service, &key("s"), setting(&format!("n{n}"), n)).await.unwrap();
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(15), "{:?}", started.elapsed());
    assert_eq!(get(&*service, &key("s")).await.unwrap().seq(), 64);
    let degraded = service.check_writable().await.unwrap();
    assert!(degraded.iter().all(|text| text.contains("of 8 connections")) && degraded.len() == 1, "{degraded:?}");
}

#[tokio::test]
async fn options_that_a_pooler_refuses_are_an_error_that_names_the_ways_out() {
    let schema = TestSchema::new();
    let (port, _) = start(place(schema.server()), PGBOUNCER).await;
    let server = by_way_of(schema.server(), port);
    let uri = format!("{server}?sslmode=disable&options=-csearch_path%3D{}", schema.name());
    let error = PostgresSessionService::connect(&uri).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    for way in ["schema=", "ignore_startup_parameters", "ALTER ROLE"] {
        assert!(error.to_string().contains(way), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_changed_password_calls_go_on_with_the_connections_that_work() {
    let schema = TestSchema::new();
    let role = format!("{}_role", schema.name());
    let admin = schema.client().await;
    let sql = format!("CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'before'");
    admin.batch_execute(&sql).await.unwrap();
    let server = format!("postgresql://{role}:before@{}/scratchbook", place(schema.server()));
    let service = PostgresSessionService::connect(&schema.uri_by(&server, "&pool_size=4")).await.unwrap();
    create(&service, "s", json!({})).await;
    admin.batch_execute(&format!("ALTER ROLE {role} PASSWORD 'after'")).await.unwrap();
    for _ in 0..4 {
        let key = key("s");
        let reads = (0..16).map(|_| get(&service, &key));
        assert!(futures_util::future::join_all(reads).await.iter().all(Option::is_some));
    }
    let degraded = service.check_writable().await.unwrap();
    assert!(degraded[0].contains("3 of 4 connections") && !degraded[0].contains(&role), "{degraded:?}");
    let end = format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = '{role}'");
    admin.batch_execute(&end).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(service.check_writable().await.unwrap_err().kind(), ErrorKind::Unauthenticated);
    // With the old password back, what is missing is tried again from time to time.
    admin.batch_execute(&format!("ALTER ROLE {role} PASSWORD 'before'")).await.unwrap();
    let all_work = async {
        while !service.check_writable().await.unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), all_work).await.unwrap();
    service.close().await.unwrap();
    admin.batch_execute(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await.unwrap();
}
