//! The server: what is served, as a router to embed and on a listener of its own.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::serve::ListenerExt;
use axum::{Router, middleware};
use scratchbook::{Agent, Environment, Error, ErrorKind, Result, Store, SystemEnvironment};
use tokio::net::TcpListener;

use crate::access::{self, Access};
use crate::apps::{Apps, Origin};
use crate::runs::Runs;
use crate::served::Served;
use crate::{adk, v1};

/// A store and the agents over it, ready to be served.
#[derive(Clone, Debug)]
pub struct Server {
    served: Arc<Served>,
}

/// Builds a [`Server`].
#[derive(Debug)]
pub struct ServerBuilder {
    store: Store,
    agents: Vec<(String, Arc<dyn Agent>, Origin)>,
    environment: Arc<dyn Environment>,
    max_runs: usize,
}

/// How many runs go on at a time, unless it is said.
const MAX_RUNS: usize = 1000;
/// How long runs may go on when the server is to end.
const RUN_GRACE: Duration = Duration::from_secs(30);

impl ServerBuilder {
    /// Hosts an agent as an app.
    #[must_use]
    pub fn app(mut self, name: impl Into<String>, agent: impl Agent) -> Self {
        self.agents.push((name.into(), Arc::new(agent), Origin::Code));
        self
    }

    /// Hosts apps that were read from files of ADK's Agent Config: what [`load_agents`](scratchbook::load_agents) gives.
    #[must_use]
    pub fn config_apps(mut self, apps: impl IntoIterator<Item = (String, Arc<dyn Agent>)>) -> Self {
        self.agents.extend(apps.into_iter().map(|(name, agent)| (name, agent, Origin::Config)));
        self
    }

    /// A clock and ids of your own.
    #[must_use]
    pub fn environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = environment;
        self
    }

    /// How many runs may go on at a time, those that wait for their session included; 1,000 otherwise. More are refused.
    #[must_use]
    pub fn max_runs(mut self, max_runs: usize) -> Self {
        self.max_runs = max_runs;
        self
    }

    /// The server.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` where two apps have one name, or an app's name is none.
    pub fn build(self) -> Result<Server> {
        let Self { store, agents, environment, max_runs } = self;
        let apps = Apps::new(agents, &store, &environment)?;
        let runs = Runs::new(max_runs, Arc::clone(&environment));
        Ok(Server { served: Arc::new(Served { store, apps, access: Access::Open, runs, environment }) })
    }
}

impl Server {
    /// Begins a server over a store.
    #[must_use]
    pub fn builder(store: Store) -> ServerBuilder {
        ServerBuilder { store, agents: Vec::new(), environment: Arc::new(SystemEnvironment), max_runs: MAX_RUNS }
    }

    /// All routes, to be served by a server of your own, or below a path of it.
    pub fn router(&self) -> Router {
        let paths = adk::Paths::new(adk::routes(), Arc::clone(&self.served));
        Router::new()
            .merge(adk::routes())
            .merge(v1::routes())
            .fallback(move |request: Request| paths.clone().not_found(request))
            .layer(middleware::from_fn_with_state(Arc::clone(&self.served), access::identify))
            .with_state(Arc::clone(&self.served))
    }

    /// Serves a listener until `shutdown` is ready, then finishes what was begun. Runs have 30 seconds for it.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the listener fails.
    pub async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let (router, runs) = (self.router(), self.served.runs.clone());
        let closing = runs.clone();
        let shutdown = async move {
            shutdown.await;
            // While connections are drained: those that follow a run end with it.
            tokio::spawn(async move { closing.close(RUN_GRACE).await });
        };
        // Frames are sent as they come, not gathered.
        let listener = listener.tap_io(|connection| drop(connection.set_nodelay(true)));
        let served = axum::serve(listener, router).with_graceful_shutdown(shutdown);
        served.await.map_err(|e| Error::new(ErrorKind::Unavailable, "the listener failed").with_source(e))?;
        runs.close(RUN_GRACE).await;
        Ok(())
    }
}
