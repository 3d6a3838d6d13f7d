//! `scratchbook serve`: a database and agents, by HTTP.
//!
//! - `listen.rs`: the address. `shutdown.rs`: when it ends. `greeting.rs`: what is printed first.
//! - `demo/`: the agents that are hosted where no others are.

mod demo;
mod greeting;
mod listen;
mod shutdown;

use scratchbook_server::Server;

use crate::args::{Global, ServeArgs};
use crate::database::{self, Database};
use crate::failure::Failure;
use crate::output::Output;
use greeting::Greeting;
use shutdown::Shutdown;

/// Serves until it is told to stop.
pub(crate) async fn serve(global: &Global, args: ServeArgs, out: &mut Output) -> Result<(), Failure> {
    // Before anything is opened or made: a signal that comes meanwhile counts.
    let shutdown = Shutdown::listen()?;
    let place = scratchbook::without_password(database::checked_uri(global)?);
    let listener = listen::listen(&args.host, args.port).await?;
    let database = Database::open_or_create(global, database::DEFAULT).await?;
    let server = demo::apps()
        .into_iter()
        .try_fold(Server::builder(database.store()), |server, app| app.map(|(name, agent)| server.app(name, agent)))?;
    let server = match &args.adk_ui {
        Some(folder) => server.dev_ui(folder),
        None => server,
    };
    let server = server.build()?;
    Greeting::new(&listener, &place, &demo::NAMES)?.with_dev_ui(args.adk_ui.as_deref()).print(out)?;
    shutdown.end(|stop| server.run(listener, stop)).await?;
    database.close().await
}
