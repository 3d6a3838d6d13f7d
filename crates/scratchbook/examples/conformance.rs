//! Holds the store that a URI names to every promise, or to those whose name or theme contains a text.
//!
//! `cargo run --example conformance --features conformance -- URI [TEXT]`: a fresh database, please; promises leave their
//! sessions behind.

use std::process::ExitCode;

use scratchbook::conformance::PROMISES;
use scratchbook::{Result, connect};

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let uri = arguments.next().unwrap_or_else(|| "memory:".to_owned());
    let text = arguments.next().unwrap_or_default();
    let (mut kept, mut broken) = (0, Vec::new());
    for promise in PROMISES.iter().filter(|p| p.name.contains(&text) || p.theme.contains(&text)) {
        let store = connect(&uri).await?;
        // A promise that is not kept panics, and says why on the way.
        match tokio::spawn((promise.run)(store)).await {
            Ok(()) => kept += 1,
            Err(_) => broken.push(format!("{}::{}", promise.theme, promise.name)),
        }
    }
    println!("{kept} promises are kept, {} are broken", broken.len());
    broken.iter().for_each(|name| println!("  {name}"));
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
