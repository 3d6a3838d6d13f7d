//! Computes, in the background, the running hash of events without one: events from before an upgrade, and events that
//! an older program has appended.

use std::sync::Arc;
use std::time::Duration;

use scratchbook::SessionService;
use scratchbook::session::Capability;
use tokio::task::JoinHandle;

/// How many events get their running hash in one commit.
const AT_ONCE: usize = 200;
/// The pause between two commits, in which others can write.
const PAUSE: Duration = Duration::from_millis(20);

/// Starts the work. The work ends when every event has a running hash. If the server is stopped earlier, the next start
/// continues the work.
pub(super) fn start(sessions: Arc<dyn SessionService>) -> JoinHandle<()> {
    tokio::spawn(async move {
        if !sessions.capabilities().has(Capability::RunningHash) {
            return;
        }
        let mut hashed = 0;
        loop {
            match sessions.hash_events(AT_ONCE).await {
                Ok(0) => break,
                Ok(count) => hashed += count,
                Err(error) => {
                    tracing::warn!(%error, hashed, "running hashes are not complete: run 'scratchbook migrate'");
                    return;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        if hashed > 0 {
            tracing::info!(events = hashed, "computed running hashes");
        }
    })
}
