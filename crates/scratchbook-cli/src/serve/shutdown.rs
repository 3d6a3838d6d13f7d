//! The end of the server. A first Ctrl-C or SIGTERM ends it gracefully, a second one ends it at once. SIGHUP has the
//! same effect, unless there are files to reload or `nohup` started the server.

use scratchbook::{Error, ErrorKind, Result};
use scratchbook_server::Server;
#[cfg(unix)]
use tokio::signal::unix::{self, Signal, SignalKind};
use tokio::sync::oneshot;

use crate::args::AccessArgs;
use crate::failure::CommandFailure;

/// The signals that end the server.
#[derive(Debug)]
pub(super) struct Shutdown {
    #[cfg(unix)]
    interrupt: Signal,
    #[cfg(unix)]
    terminate: Signal,
    /// `None` if SIGHUP does not end the server gracefully.
    #[cfg(unix)]
    hangup: Option<Signal>,
}

impl Shutdown {
    /// Registers handlers for the signals.
    pub(super) fn listen(args: &AccessArgs) -> Result<Self> {
        #[cfg(unix)]
        {
            let reloads = args.has_files() || args.make_token.is_some();
            let ends = !reloads && hangup_ends();
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hangup: if ends { Some(signal(SignalKind::hangup())?) } else { None },
            })
        }
        #[cfg(not(unix))]
        {
            let _ = args;
            Ok(Self {})
        }
    }

    /// Runs the server. The first signal resolves `StopSignal`, the second aborts the run.
    pub(super) async fn end<F>(mut self, run: impl FnOnce(StopSignal) -> F) -> Result<(), CommandFailure>
    where
        F: Future<Output = Result<()>>,
    {
        let (stop, stopped) = oneshot::channel();
        let running = run(Box::pin(async {
            // A dropped sender also ends the server.
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
            () = signals => Err(CommandFailure::Interrupted),
        }
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
fn signal(kind: SignalKind) -> Result<Signal> {
    unix::signal(kind).map_err(|e| Error::new(ErrorKind::Unavailable, "signals cannot be heard").with_source(e))
}

/// Returns whether the server should handle SIGHUP. It should not if the process was started with SIGHUP ignored, as by
/// `nohup`, or if the system does not report this. The signal then keeps its effect: it is ignored, or it ends the
/// process at once.
#[cfg(unix)]
fn hangup_ends() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The first bit is the signal with the number 1, SIGHUP.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 0)
}

/// Reloads the files of the login and of TLS at each SIGHUP.
pub(super) fn reload_at_hangup(server: Server) -> Result<()> {
    #[cfg(unix)]
    {
        let mut hangup = signal(SignalKind::hangup())?;
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
pub(super) type StopSignal = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
