//! The shutdown of the server.

use std::time::{Duration, Instant};

use scratchbook_server::ServerLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::{LoopbackServer, demo, read_to_end, session};

#[tokio::test]
async fn what_was_begun_is_finished_and_nothing_is_taken() {
    let (_, server) = demo().await;
    let mut running = LoopbackServer::start(server.build().unwrap()).await;
    let mut idle = running.connect().await;
    idle.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut part = [0; 1024];
    assert!(idle.read(&mut part).await.unwrap() > 0);
    let mut half = running.connect().await;
    half.write_all(b"GET /health HTTP/1.1\r\nho").await.unwrap();
    let mut begun = running.connect().await;
    begun.write_all(b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nab").await.unwrap();
    sleep(Duration::from_millis(100)).await;

    running.stop();
    assert_eq!(read_to_end(&mut idle).await, "", "a connection without a request ends at once");
    assert_eq!(read_to_end(&mut half).await, "", "and one with a half of it");
    assert!(!running.ended.is_finished());
    assert!(TcpStream::connect(running.address).await.is_err(), "connections are still taken");
    begun.write_all(b"cd").await.unwrap();
    let answer = read_to_end(&mut begun).await;
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("connection: close"), "{answer}");

    running.ended().await;
}

#[tokio::test]
async fn who_does_not_finish_is_cut_off() {
    let (_, server) = demo().await;
    let limits = ServerLimits::default().with_shutdown_time(Duration::from_millis(100));
    let mut running = LoopbackServer::start(server.limits(limits).build().unwrap()).await;
    let mut begun = running.connect().await;
    begun.write_all(b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nab").await.unwrap();
    sleep(Duration::from_millis(100)).await;
    let start = Instant::now();
    running.stop();
    running.ended().await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn who_follows_is_let_go_between_two_frames() {
    let (store, server) = demo().await;
    session(&store, "u1", "s-1").await;
    let mut running = LoopbackServer::start(server.build().unwrap()).await;
    let mut watcher = running.connect().await;
    let watch = "GET /v1/apps/demo/users/u1/watch?from=beginning HTTP/1.1\r\nhost: localhost\r\n\r\n";
    watcher.write_all(watch.as_bytes()).await.unwrap();
    let mut part = [0; 1024];
    assert!(watcher.read(&mut part).await.unwrap() > 0);
    let start = Instant::now();
    running.stop();
    let rest = read_to_end(&mut watcher).await;
    // The body is complete: its last chunk has arrived.
    assert!(rest.ends_with("0\r\n\r\n"), "{rest}");
    running.ended().await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
