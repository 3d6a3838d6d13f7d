//! Rust clients against the endpoint: our client as a store, and Google's own client.

mod agents;
mod faults;
mod google;
mod operations;
mod promises;
mod reading;
mod scripted;
mod store;
mod who;

use std::future::pending;
use std::sync::Arc;

use scratchbook::store::{VertexAiOptions, VertexAiSessionService};
use scratchbook::{Store, connect};
use scratchbook_server::Server;
use tokio::net::TcpListener;

/// Starts a server over a store in memory, and returns its address.
pub(super) async fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::builder(connect("memory:").await.unwrap()).build().unwrap();
    tokio::spawn(server.run(listener, pending()));
    url
}

/// Returns our client of such a server. Each app is an engine there.
async fn over_memory() -> Store {
    let options = VertexAiOptions::new("p1", "l1").with_endpoint(serve().await);
    Store::new(Arc::new(VertexAiSessionService::open(options).await.unwrap()))
}
