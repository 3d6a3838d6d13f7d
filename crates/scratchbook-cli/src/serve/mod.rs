//! `scratchbook serve`: a database and agents, by HTTP.
//!
//! - `listen.rs`: the address. `shutdown.rs`: when it ends. `greeting.rs`: what is printed first.
//! - `telemetry/`: logs, numbers, traces.
//! - `demo/`: the agents that are hosted where no others are.

mod demo;
mod greeting;
mod listen;
mod shutdown;
mod telemetry;

use std::sync::Arc;

use scratchbook::{Store, WithMetrics};
use scratchbook_server::Server;

use crate::args::{Global, ServeArgs};
use crate::config;
use crate::database::{self, Database};
use crate::failure::Failure;
use crate::output::Output;
use greeting::Greeting;
use shutdown::Shutdown;
use telemetry::{Metrics, Telemetry};

/// Serves until it is told to stop.
pub(crate) async fn serve(global: &Global, args: ServeArgs, out: &mut Output) -> Result<(), Failure> {
    if args.print_config {
        return Ok(config::print(&args.settings, out)?);
    }
    // Before anything is opened or made: a signal that comes meanwhile counts.
    let shutdown = Shutdown::listen()?;
    let telemetry = Telemetry::begin(&args)?;
    let metrics = Metrics::begin()?;
    let place = scratchbook::without_password(database::checked_uri(global)?);
    let listener = listen::listen(&args.host, args.port).await?;
    let database = Database::open_or_create(global, database::DEFAULT).await?;
    let server = Server::builder(counted(database.store(), &demo::NAMES)).metrics(move || metrics.render());
    let server =
        demo::apps().into_iter().try_fold(server, |server, app| app.map(|(name, agent)| server.app(name, agent)))?;
    let server = match &args.adk_ui {
        Some(folder) => server.dev_ui(folder),
        None => server,
    };
    let server = server.build()?;
    Greeting::new(&listener, &place, &demo::NAMES)?.with_dev_ui(args.adk_ui.as_deref()).print(out)?;
    shutdown.end(|stop| server.run(listener, stop)).await?;
    telemetry.end().await;
    database.close().await
}

/// A store whose calls are counted by app. Clients may name any app; only those that are hosted have a number each.
fn counted(Store { sessions, artifacts, .. }: Store, apps: &[&str]) -> Store {
    let apps = || apps.iter().copied();
    let (sessions, artifacts) = (WithMetrics::new(sessions), WithMetrics::new(artifacts));
    Store::of(Arc::new(sessions.with_apps(apps())), Arc::new(artifacts.with_apps(apps())))
}
