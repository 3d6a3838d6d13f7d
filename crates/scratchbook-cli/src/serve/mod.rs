//! `scratchbook serve`: a database and agents, by HTTP.
//!
//! - `listen.rs`: the address. `files.rs`: how many may be open. `options.rs`: who may call, and how much.
//! - `greeting.rs`: what is printed first. `shutdown.rs`: when it ends.
//! - `telemetry/`: logs, numbers, traces.
//! - `apps.rs`: the agents that are hosted.

mod apps;
mod banner;
mod listen;
mod open_files;
mod options;
mod shutdown;
mod telemetry;

use std::sync::Arc;

use scratchbook::{Store, WithMetrics};
use scratchbook_server::Server;

use crate::args::ServeArgs;
use crate::config::{self, Setting};
use crate::context::{Context, DEFAULT_DATABASE};
use crate::database::{self, Database};
use crate::failure::Failure;
use crate::output::Output;
use apps::Apps;
use banner::Banner;
use shutdown::Shutdown;
use telemetry::{Metrics, Telemetry};

/// Serves until it is told to stop.
pub(crate) async fn serve(
    context: &Context,
    args: ServeArgs,
    settings: &[Setting],
    out: &mut Output,
) -> Result<(), Failure> {
    if args.print_config {
        return Ok(config::print(settings, out)?);
    }
    // Before anything is opened or made: a signal that comes meanwhile counts.
    let shutdown = Shutdown::listen()?;
    let telemetry = Telemetry::begin(&args)?;
    let metrics = Metrics::begin()?;
    let place = scratchbook::without_password(database::checked_uri(context)?);
    let apps = Apps::of(&args)?;
    let listener = listen::listen(&args.host, args.port).await?;
    let database = Database::open_or_create(context, DEFAULT_DATABASE).await?;
    if let Some(key) = &database.sealed_by {
        tracing::info!(%key, "what is written is sealed");
    }
    let names = apps.names();
    let connections = open_files::room_for_connections(&args.limits);
    let server = Server::builder(counted(database.store(), &names)).metrics(move || metrics.render());
    let server = args.adk_ui.iter().fold(apps.host(server), |server, folder| server.dev_ui(folder));
    let server = server.surfaces(options::surfaces(&args));
    let server = options::limited(options::guarded(server, &args.access)?, &args.limits, connections).build()?;
    let address = listen::address(&listener)?;
    server.check_address(address)?;
    if !address.ip().to_canonical().is_loopback() && args.access.tls_cert.is_none() {
        tracing::warn!(
            "tokens and answers cross the network unencrypted: give --tls-cert and --tls-key, or have a proxy speak TLS"
        );
    }
    Banner::new(address, place, names, &args).print(out.format()).await?;
    shutdown::reload_at_hangup(server.clone())?;
    shutdown.end(|stop| server.run(listener, stop)).await?;
    let closed = database.close().await;
    // Last: it writes what the log has of all this.
    telemetry.end().await;
    closed
}

/// A store whose calls are counted by app. Clients may name any app; only those that are hosted have a number each.
fn counted(Store { sessions, artifacts, .. }: Store, apps: &[String]) -> Store {
    let apps = || apps.iter().cloned();
    let (sessions, artifacts) = (WithMetrics::new(sessions), WithMetrics::new(artifacts));
    Store::of(Arc::new(sessions.with_apps(apps())), Arc::new(artifacts.with_apps(apps())))
}
