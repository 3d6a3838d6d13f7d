//! Runs transactions on stores and servers that others run. The faults are theirs, too.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use scratchbook::store::connect;

use crate::check::{Report, check};
use crate::client::{HistoryClient, HttpClient, LibraryClient};
use crate::drive::{HistoryRun, WORKERS};
use crate::faults::FaultError;
use crate::history::write_file;
use crate::workload::Workload;

/// What to run transactions on.
#[derive(Debug)]
pub struct Against<'a> {
    /// The URIs of stores, such as `postgres://...`, and the base URLs of servers. All have to use one database.
    pub uris: &'a [String],
    /// The bearer token for the servers.
    pub token: Option<&'a str>,
    /// How long transactions run.
    pub time: Duration,
    /// The seed of everything random except times.
    pub seed: u64,
    /// Where the history is written, as JSON lines.
    pub history: Option<&'a Path>,
}

impl Against<'_> {
    /// Runs transactions, and checks what they show. The sessions are of an app of their own, `histories-TIME`, whose
    /// data stays in the database.
    ///
    /// # Errors
    ///
    /// A URI is wrong, or a store or server does not answer, or does not find what another one has stored.
    pub async fn run(&self) -> Result<Report, FaultError> {
        let mut clients = Vec::new();
        // A URI may contain a password, so errors give its place.
        for (place, uri) in self.uris.iter().enumerate() {
            clients.push(client(uri, self.token).await.map_err(|error| format!("URI {}: {error}", place + 1))?);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
        let workload = Workload::new(&now.to_string(), 2, 2)?;
        // A wrong address or token is reported at once.
        for (place, client) in clients.iter().enumerate() {
            // The other sessions are created by the first client alone, which shows whether all use one database.
            let session = &workload.sessions()[0];
            let tried = async {
                client.create(session).await?;
                client.verify(session).await?;
                client.feed(session.app_name(), None).await
            };
            tried.await.map_err(|error| format!("URI {}: {error}", place + 1))?;
        }
        eprintln!("transactions of the app {} for {} s", workload.sessions()[0].app_name(), self.time.as_secs());
        let run = HistoryRun::begin(clients, workload).await?;
        let worked = run.work(WORKERS, self.time, self.seed).await;
        let (observed, ended) = run.end().await;
        if let Some(path) = self.history {
            write_file(path, &observed.entries, &[])?;
        }
        worked.and(ended)?;
        Ok(tokio::task::spawn_blocking(move || check(&observed)).await?)
    }
}

async fn client(uri: &str, token: Option<&str>) -> Result<Arc<dyn HistoryClient>, FaultError> {
    Ok(match uri.split_once("://") {
        Some(("http" | "https", _)) => Arc::new(HttpClient::new(uri, token)?),
        _ => Arc::new(LibraryClient::new(connect(uri).await?)),
    })
}
