//! A runner of adk-session: `scratchbook-peer-adk-session memory|sqlite|postgres LOCATION`.

mod agent;
mod cells;
mod check;
mod data;
mod fill;
mod measure;
mod protocol;
mod store;

use std::io::{BufRead, Write};

use serde_json::json;

use crate::cells::Cells;
use crate::protocol::{PeerFailure, PeerRequest};
use crate::store::PooledService;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<(), PeerFailure> {
    let arguments: Vec<String> = std::env::args().collect();
    // The harness also passes the service, which is not needed, because it follows from the store.
    let [_, kind, location, ..] = &arguments[..] else {
        return Err(PeerFailure::Error(format!("{arguments:?} is not: PROGRAM memory|sqlite|postgres LOCATION")));
    };
    let store = PooledService::open(kind, location).await?;
    println!("{}", store.about());
    let cells = Cells::new(store, kind, location)?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let answer = match PeerRequest::parse(&line) {
            Ok(request) => cells.answer(&request).await,
            Err(failure) => Err(failure),
        };
        let answer = answer.unwrap_or_else(|failure| match failure {
            PeerFailure::Unsupported(reason) => json!({ "unsupported": reason }),
            PeerFailure::Error(error) => json!({ "error": error }),
        });
        println!("{answer}");
        std::io::stdout().flush()?;
    }
    Ok(())
}
