//! The server: what is served, as a router to embed and on a listener of its own.

use std::future::Future;
use std::sync::Arc;

use axum::{Router, middleware};
use scratchbook::{Agent, Environment, Error, Result, Store, SystemEnvironment};
use tokio::net::TcpListener;

use crate::access::{self, Access};
use crate::apps::Apps;
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
    agents: Vec<(String, Arc<dyn Agent>)>,
    environment: Arc<dyn Environment>,
}

impl ServerBuilder {
    /// Hosts an agent as an app.
    #[must_use]
    pub fn app(mut self, name: impl Into<String>, agent: impl Agent) -> Self {
        self.agents.push((name.into(), Arc::new(agent)));
        self
    }

    /// A clock and ids of your own.
    #[must_use]
    pub fn environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = environment;
        self
    }

    /// The server.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` where two apps have one name, or an app's name is none.
    pub fn build(self) -> Result<Server> {
        let Self { store, agents, environment } = self;
        let apps = Apps::new(agents, &store, &environment)?;
        Ok(Server { served: Arc::new(Served { store, apps, access: Access::Open, environment }) })
    }
}

impl Server {
    /// Begins a server over a store.
    #[must_use]
    pub fn builder(store: Store) -> ServerBuilder {
        ServerBuilder { store, agents: Vec::new(), environment: Arc::new(SystemEnvironment) }
    }

    /// All routes, to be served by a server of your own, or below a path of it.
    pub fn router(&self) -> Router {
        Router::new()
            .merge(adk::routes())
            .merge(v1::routes())
            .fallback(adk::not_found)
            .method_not_allowed_fallback(adk::method_not_allowed)
            .layer(middleware::from_fn_with_state(Arc::clone(&self.served), access::identify))
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
