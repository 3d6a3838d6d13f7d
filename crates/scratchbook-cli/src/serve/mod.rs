//! `scratchbook serve`: serves a database and agents over HTTP.
//!
//! - `apps.rs`: the hosted agents. `options.rs`: authentication and limits. `own_token.rs`: the token of the first
//!   start.
//! - `listen.rs`: the socket. `open_files.rs`: the limit on open files. `banner.rs`: the text that is printed first.
//! - `telemetry/`: logs, metrics and traces. `shutdown.rs`: the end.

mod apps;
mod banner;
mod listen;
mod open_files;
mod options;
mod own_token;
mod shutdown;
mod telemetry;

use std::sync::Arc;

use scratchbook::Store;
use scratchbook::agent::ReplayFolder;
use scratchbook::layer::WithMetrics;
use scratchbook_server::Server;

use crate::args::ServeArgs;
use crate::config::{self, Setting};
use crate::context::{Context, DEFAULT_DATABASE};
use crate::database::{self, OpenDatabase};
use crate::failure::CommandFailure;
use crate::output::Output;
use apps::HostedApps;
use banner::Banner;
use shutdown::Shutdown;
use telemetry::{PrometheusMetrics, Telemetry};

pub(crate) use banner::reachable_ip;

/// Serves until a signal ends it.
pub(crate) async fn serve(
    context: &Context,
    mut args: ServeArgs,
    settings: &[Setting],
    out: &mut Output,
) -> Result<(), CommandFailure> {
    if args.print_config {
        return Ok(config::print(settings, out)?);
    }
    // The handlers are registered first, so that signals during the start are not lost.
    let shutdown = Shutdown::listen(&args.access)?;
    let telemetry = Telemetry::begin(&args)?;
    let metrics = PrometheusMetrics::begin()?;
    let place = scratchbook::store::without_password(database::checked_uri(context)?);
    let apps = HostedApps::of(&args)?;
    let token_file = own_token::require(&mut args.access)?;
    let listener = listen::listen(&args.host, args.port).await?;
    let database = OpenDatabase::open_or_create(context, DEFAULT_DATABASE).await?;
    if let Some(key) = &database.sealed_by {
        tracing::info!(%key, "new values are encrypted");
    }
    let names = apps.names();
    let connections = open_files::room_for_connections(&args.limits);
    let server = Server::builder(counted(database.store(), &names)).metrics(move || metrics.render());
    let server = args.adk_ui.iter().fold(apps.host(server), |server, folder| server.dev_ui(folder));
    let server = match &args.conformance {
        Some(folder) => server.replay(ReplayFolder::open(folder).map_err(|e| e.context("--conformance"))?),
        None => server,
    };
    let server = options::shown(server.surfaces(options::surfaces(&args)), &args);
    let server = options::limited(options::guarded(server, &args.access)?, &args.limits, connections).build()?;
    let address = listen::address(&listener)?;
    server.check_address(address)?;
    if !address.ip().to_canonical().is_loopback() && args.access.tls_cert.is_none() {
        tracing::warn!(
            "tokens and responses cross the network unencrypted: set --tls-cert and --tls-key, or use a proxy with TLS"
        );
    }
    Banner::new(address, place, names, token_file, &args).print(out.format()).await?;
    if args.access.has_files() {
        shutdown::reload_at_hangup(server.clone())?;
    }
    shutdown.end(|stop| server.run(listener, stop)).await?;
    let closed = database.close().await;
    // Telemetry ends last, because it flushes the log.
    telemetry.end().await;
    closed
}

/// Adds metrics to a store, by app. Only hosted apps are counted by name, because clients can name any app.
fn counted(Store { sessions, artifacts, .. }: Store, apps: &[String]) -> Store {
    let apps = || apps.iter().cloned();
    let (sessions, artifacts) = (WithMetrics::new(sessions), WithMetrics::new(artifacts));
    Store::of(Arc::new(sessions.with_apps(apps())), Arc::new(artifacts.with_apps(apps())))
}
