//! The end of the server: a first Ctrl-C or SIGTERM ends it gracefully, a second one at once.

use scratchbook::{Error, ErrorKind, Result};
use scratchbook_server::Server;
use tokio::sync::oneshot;

use crate::failure::Failure;

/// The signals that end the server.
#[derive(Debug)]
pub(super) struct Shutdown {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Shutdown {
    /// Registers handlers for the signals.
    pub(super) fn listen() -> Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let signal = |kind| {
                signal(kind).map_err(|e| Error::new(ErrorKind::Unavailable, "signals cannot be heard").with_source(e))
            };
            Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Runs the server. The first signal resolves `Stop`, the second aborts the run.
    pub(super) async fn end<F>(mut self, run: impl FnOnce(Stop) -> F) -> Result<(), Failure>
    where
        F: Future<Output = Result<()>>,
    {
        let (stop, stopped) = oneshot::channel();
        let running = run(Box::pin(async {
            // A dropped sender means the end as well.
            let _ = stopped.await;
        }));
        let signals = async {
            self.next().await;
            let _ = stop.send(());
            self.next().await;
        };
        tokio::select! {
            biased;
            ended = running => Ok(ended?),
            () = signals => Err(Failure::Interrupted),
        }
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Reloads the files of the login and of TLS at each SIGHUP.
pub(super) fn reload_at_hangup(server: Server) -> Result<()> {
    #[cfg(unix)]
    {
        let mut hangup = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())
            .map_err(|e| Error::new(ErrorKind::Unavailable, "signals cannot be heard").with_source(e))?;
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                match server.reload() {
                    Ok(()) => tracing::info!("reloaded the files of the login and of TLS"),
                    Err(error) => tracing::error!(%error, "a file is invalid; its previous content stays in effect"),
                }
            }
        });
    }
    #[cfg(not(unix))]
    drop(server);
    Ok(())
}

/// Resolves when the server has to stop.
pub(super) type Stop = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
