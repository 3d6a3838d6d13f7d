//! When serving ends: at Ctrl-C and at SIGTERM, and at the second of them at once.

use scratchbook::{Error, ErrorKind, Result};
use scratchbook_server::Server;
use tokio::sync::oneshot;

use crate::failure::Failure;

/// The signals to end, heard from now on.
#[derive(Debug)]
pub(super) struct Shutdown {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Shutdown {
    /// Hears the signals.
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

    /// Runs something that stops at the first signal, and leaves it at the second.
    pub(super) async fn end<F>(mut self, run: impl FnOnce(Stop) -> F) -> Result<(), Failure>
    where
        F: Future<Output = Result<()>>,
    {
        let (stop, stopped) = oneshot::channel();
        let running = run(Box::pin(async {
            // Where nobody is left to say so, it is over too.
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

/// Has the files of the login and of TLS read again at each SIGHUP.
pub(super) fn reload_at_hangup(server: Server) -> Result<()> {
    #[cfg(unix)]
    {
        let mut hangup = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())
            .map_err(|e| Error::new(ErrorKind::Unavailable, "signals cannot be heard").with_source(e))?;
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                match server.reload() {
                    Ok(()) => tracing::info!("the files of the login and of TLS are read again"),
                    Err(error) => tracing::error!(%error, "a file cannot be used; what it held before still counts"),
                }
            }
        });
    }
    #[cfg(not(unix))]
    drop(server);
    Ok(())
}

/// Ready when it is time to stop.
pub(super) type Stop = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
