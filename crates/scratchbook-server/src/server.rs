//! The server: what is served, as a router to embed and on a listener of its own.

use std::future::Future;
use std::sync::Arc;

use axum::extract::Request;
use axum::{Router, middleware};
use scratchbook::{Agent, Environment, Error, Result, Store, SystemEnvironment};
use tokio::net::TcpListener;

use crate::access::{self, Access};
use crate::apps::{Apps, Origin};
use crate::operations::{self, Metrics, Observer};
use crate::served::Served;
use crate::{adk, v1};

/// A store and the agents over it, ready to be served.
#[derive(Clone, Debug)]
pub struct Server {
    served: Arc<Served>,
    metrics: Option<Metrics>,
}

/// Builds a [`Server`].
#[derive(Debug)]
pub struct ServerBuilder {
    store: Store,
    agents: Vec<(String, Arc<dyn Agent>, Origin)>,
    environment: Arc<dyn Environment>,
    metrics: Option<Metrics>,
}

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

    /// Answers `/metrics` with what this writes, in Prometheus' text format. The server tells the facade `metrics` of its
    /// requests whether this is called or not; which recorder hears of it, and writes it here, is up to the program.
    #[must_use]
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Metrics::new(render));
        self
    }

    /// The server.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` where two apps have one name, or an app's name is none.
    pub fn build(self) -> Result<Server> {
        let Self { store, agents, environment, metrics } = self;
        let apps = Apps::new(agents, &store, &environment)?;
        Ok(Server { served: Arc::new(Served { store, apps, access: Access::Open, environment }), metrics })
    }
}

impl Server {
    /// Begins a server over a store.
    #[must_use]
    pub fn builder(store: Store) -> ServerBuilder {
        ServerBuilder { store, agents: Vec::new(), environment: Arc::new(SystemEnvironment), metrics: None }
    }

    /// All routes, to be served by a server of your own, or below a path of it.
    pub fn router(&self) -> Router {
        let paths = adk::Paths::new(adk::routes(), Arc::clone(&self.served));
        Router::new()
            .merge(adk::routes())
            .merge(operations::routes(self.metrics.as_ref()))
            .nest("/v1", v1::routes())
            .fallback(move |request: Request| paths.clone().not_found(request))
            .layer(middleware::from_fn_with_state(Arc::clone(&self.served), access::identify))
            .layer(middleware::from_fn_with_state(Observer::new(), operations::observe))
            .with_state(Arc::clone(&self.served))
    }

    /// Serves a listener until `shutdown` is ready, then finishes what was begun.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the listener fails.
    pub async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let served = axum::serve(listener, self.router()).with_graceful_shutdown(shutdown);
        served.await.map_err(|e| Error::new(scratchbook::ErrorKind::Unavailable, "the listener failed").with_source(e))
    }
}
