//! Tests the store that a URI names: all promises of a store, or those whose name or theme contains a text.
//!
//! `cargo run --locked --example conformance --all-features -- URI [TEXT [LAYER...]]`. Use a fresh database, since the
//! promises leave their sessions behind. Layers wrap the store, the first one innermost: `deadline`, `metrics`, `secret`,
//! `encryption`, `compression`. Encrypted data is larger than the default limits allow, so set higher ones,
//! as in `sqlite://x.db?value_bytes=16777216&delta_bytes=33554432&event_bytes=67108864&artifact_bytes=67108864`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use scratchbook::artifact::ArtifactService;
use scratchbook::conformance::PROMISES;
use scratchbook::layer::{Keyring, WithCompression, WithDeadline, WithEncryption, WithMetrics, WithSecretKeys};
use scratchbook::session::SecretKeys;
use scratchbook::store::Limits;
use scratchbook::{Error, ErrorKind, InMemorySessionService, Result, SessionService, Store, connect};

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let uri = arguments.next().unwrap_or_else(|| "memory:".to_owned());
    let text = arguments.next().unwrap_or_default();
    let layers: Vec<_> = arguments.collect();
    let (mut kept, mut broken) = (0, Vec::new());
    for promise in PROMISES.iter().filter(|p| p.name.contains(&text) || p.theme.contains(&text)) {
        let store = open(&uri, layers.iter().any(|a| a == "encryption")).await?;
        let store = layers.iter().try_fold(store, |store, layer| behind(layer, store))?;
        if !promise.is_expected_of(&store) {
            continue;
        }
        // If a promise is not kept, its test panics and prints why.
        match tokio::spawn((promise.run)(store)).await {
            Ok(()) => kept += 1,
            Err(_) => broken.push(format!("{}::{}", promise.theme, promise.name)),
        }
    }
    println!("{kept} promises are kept, {} are broken", broken.len());
    broken.iter().for_each(|name| println!("  {name}"));
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Encrypted values need higher limits. The URI of a store in memory cannot set them, so they are set here.
async fn open(uri: &str, is_sealed: bool) -> Result<Store> {
    if uri == "memory:" && is_sealed {
        let limits = Limits::unlimited().with_keys_per_scope(Limits::default().keys_per_scope);
        return Ok(Store::new(Arc::new(InMemorySessionService::new().with_limits(limits))));
    }
    connect(uri).await
}

/// The store inside a layer.
fn behind(layer: &str, Store { sessions, artifacts, .. }: Store) -> Result<Store> {
    fn store(sessions: impl SessionService, artifacts: impl ArtifactService) -> Result<Store> {
        Ok(Store::of(Arc::new(sessions), Arc::new(artifacts)))
    }
    match layer {
        "deadline" => {
            let minute = Duration::from_secs(60);
            store(WithDeadline::new(sessions, minute), WithDeadline::new(artifacts, minute))
        }
        "metrics" => store(WithMetrics::new(sessions), WithMetrics::new(artifacts)),
        "secret" => store(WithSecretKeys::new(sessions, SecretKeys::new(["user:secret:"])), artifacts),
        "encryption" => {
            let keys = Keyring::new("now", [7; 32])?;
            store(WithEncryption::new(sessions, keys.clone()), WithEncryption::new(artifacts, keys))
        }
        "compression" => store(WithCompression::above(sessions, 16), WithCompression::above(artifacts, 16)),
        other => Err(Error::new(ErrorKind::InvalidArgument, format!("there is no layer named '{other}'"))),
    }
}
