//! The server, which is built over a store. It is a router to embed, or serves a listener itself.

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, Method};
use axum::routing::any;
use scratchbook::agent::{Plugin, ReplayFolder, TraceConfig, TraceSink};
use scratchbook::environment::{Environment, SystemEnvironment};
use scratchbook::session::Watches;
use scratchbook::{Agent, Error, ErrorKind, Result, Runner, Store};
use tokio::net::TcpListener;
use tower::ServiceBuilder;

use crate::access::{Access, Login};
use crate::activity::RecentCounts;
use crate::answers::Budget;
use crate::app_state::{AppState, AppStateParts};
use crate::apps::{AgentSource, Apps};
use crate::bodies::BodyMemory;
use crate::browser::BrowserState;
use crate::dev_ui::DevUi;
use crate::document::Documents;
use crate::guard::{Guard, Origins};
use crate::heavy::Heavy;
use crate::limits::{Lanes, Rates, ServerLimits, Streams};
use crate::listen::{self, Closing, ListenState, Tls};
use crate::operations::{Metrics, Readiness};
use crate::runs::Runs;
use crate::spans::{ForgetsSpans, Spans};
use crate::state_memory::WithStateMemory;
use crate::store_probe::StoreProbe;
use crate::surface::{INSPECTOR, Surface};
use crate::url_prefix::UrlPrefix;
use crate::{adk, browser, document, inspector, layers, operations, v1, vertex};

/// A store and the agents over it, ready to be served.
#[derive(Clone, Debug)]
pub struct Server {
    app_state: AppState,
    origins: Origins,
    /// The address at which another server serves the router, if the address is known.
    host: Option<String>,
    url_prefix: UrlPrefix,
    metrics: Option<Metrics>,
    dev_ui: Option<DevUi>,
    readiness: Readiness,
    documents: Arc<Documents>,
}

/// Builds a [`Server`].
#[derive(Debug)]
pub struct ServerBuilder {
    store: Store,
    agents: Vec<(String, Arc<dyn Agent>, AgentSource)>,
    environment: Arc<dyn Environment>,
    login: Option<Login>,
    allow_origins: Vec<String>,
    host: Option<String>,
    url_prefix: Option<String>,
    limits: ServerLimits,
    tls: Option<Tls>,
    metrics: Option<Metrics>,
    dev_ui: Option<PathBuf>,
    max_runs: usize,
    max_waiting_runs: usize,
    resumable: bool,
    replay: Option<ReplayFolder>,
    tracing: TraceConfig,
    plugins: Vec<Arc<dyn Plugin>>,
    surfaces: Vec<Surface>,
    has_inspector: bool,
}

/// The default maximum number of runs at a time.
const MAX_RUNS: usize = 1000;
/// The default maximum number of runs that wait for a session.
const MAX_WAITING_RUNS: usize = 8;

impl ServerBuilder {
    /// Hosts an agent as an app.
    #[must_use]
    pub fn app(mut self, name: impl Into<String>, agent: impl Agent) -> Self {
        self.agents.push((name.into(), Arc::new(agent), AgentSource::Code));
        self
    }

    /// Hosts apps from files of ADK's Agent Config, as [`load_agents`](scratchbook::agent::load_agents) returns them.
    #[must_use]
    pub fn config_apps(mut self, apps: impl IntoIterator<Item = (String, Arc<dyn Agent>)>) -> Self {
        self.agents.extend(apps.into_iter().map(|(name, agent)| (name, agent, AgentSource::Config)));
        self
    }

    /// Sets a clock and ids of your own.
    #[must_use]
    pub fn environment(mut self, environment: Arc<dyn Environment>) -> Self {
        self.environment = environment;
        self
    }

    /// Requires a login. Without a login, everyone who can reach the server may do everything, and [`run`](Server::run)
    /// serves only clients on this machine.
    #[must_use]
    pub fn login(mut self, login: Login) -> Self {
        self.login = Some(login);
        self
    }

    /// Lets pages of these origins call the server, as `adk api_server --allow_origins` does. An entry is an origin
    /// such as `https://shop.example`, `regex:` and an expression that the whole origin has to match, or `*`. Without
    /// this setting, only pages of the server's own origin may call.
    #[must_use]
    pub fn allow_origins(mut self, origins: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allow_origins.extend(origins.into_iter().map(Into::into));
        self
    }

    /// Sets the address at which your own server serves the [`router`](Server::router). If it is a loopback address,
    /// requests that name another host are refused, since they come from a foreign page whose name points to this
    /// machine. [`run`](Server::run) sets the address by itself.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Sets the path below which a proxy serves this server, such as `/agents/shop`. Requests are served with and
    /// without this prefix, whether or not the proxy removes it.
    #[must_use]
    pub fn url_prefix(mut self, path: impl Into<String>) -> Self {
        self.url_prefix = Some(path.into());
        self
    }

    /// Sets the limits of sizes, numbers and times.
    #[must_use]
    pub fn limits(mut self, limits: ServerLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Serves TLS on the listener of [`run`](Server::run).
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Answers `/metrics` with the text that `render` returns, in Prometheus' format. The server always reports its
    /// requests to the facade `metrics`. The program installs the recorder, and `render` returns its text.
    #[must_use]
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.metrics = Some(Metrics::new(render));
        self
    }

    /// Serves ADK's dev interface below `/dev-ui/`. Its files are in the folder `google/adk/cli/browser` of the Python
    /// package `google-adk`.
    #[must_use]
    pub fn dev_ui(mut self, folder: impl Into<PathBuf>) -> Self {
        self.dev_ui = Some(folder.into());
        self
    }

    /// Sets how many runs may be active at a time; the default is 1,000. Further runs are refused. A caller, which is a
    /// login together with the user for whom it acts, may have as many runs as remain free: half of them while it is
    /// alone. A run that waits for another run of its session does not count.
    #[must_use]
    pub fn max_runs(mut self, max_runs: usize) -> Self {
        self.max_runs = max_runs;
        self
    }

    /// Sets how many runs may wait for the current run of their session; the default is 8. Further runs are refused.
    #[must_use]
    pub fn max_waiting_runs_per_session(mut self, max_waiting_runs: usize) -> Self {
        self.max_waiting_runs = max_waiting_runs;
        self
    }

    /// Makes runs resumable by a request with the id of the run and no message: see
    /// [`RunnerBuilder::resumable`](scratchbook::agent::RunnerBuilder::resumable).
    #[must_use]
    pub fn resumable(mut self) -> Self {
        self.resumable = true;
        self
    }

    /// Replays recordings of ADK's conformance tests: see [`ReplayFolder`]. Everybody who may run an agent may then
    /// choose a recording, so this is for tests.
    #[must_use]
    pub fn replay(mut self, folder: ReplayFolder) -> Self {
        self.replay = Some(folder);
        self
    }

    /// Sets what exported spans of runs contain: session ids and texts only if the configuration enables them. The
    /// server keeps the spans itself, so it replaces a sink of the configuration.
    #[must_use]
    pub fn tracing(mut self, tracing: TraceConfig) -> Self {
        self.tracing = tracing;
        self
    }

    /// Adds a plugin to all hosted apps.
    #[must_use]
    pub fn plugin(mut self, plugin: impl Plugin) -> Self {
        self.plugins.push(Arc::new(plugin));
        self
    }

    /// Serves only these surfaces; by default, all are served. Paths of the other surfaces answer 404. `/health`,
    /// `/health/ready` and `/metrics` belong to no surface.
    #[must_use]
    pub fn surfaces(mut self, surfaces: impl IntoIterator<Item = Surface>) -> Self {
        self.surfaces = surfaces.into_iter().collect();
        self
    }

    /// Leaves out the inspector, the pages below `/inspector` on which people look at sessions and their state.
    #[must_use]
    pub fn without_inspector(mut self) -> Self {
        self.has_inspector = false;
        self
    }

    /// Builds the server.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if two apps or two plugins have the same name, or an app's name is invalid; if no surface is
    /// served, or the dev interface without ADK's surface, which it calls; if an allowed origin or the URL prefix is
    /// invalid; if
    /// a file of the login or of TLS is invalid, or the dev interface is not in its folder. Also the errors of reading
    /// these files.
    pub fn build(self) -> Result<Server> {
        check_surfaces(&self.surfaces, self.dev_ui.as_ref())?;
        let surfaces = self.surfaces;
        let Self { mut store, agents, environment, login, allow_origins, host, limits, tls, metrics, dev_ui, .. } =
            self;
        let spans = Arc::new(Spans::default());
        let sink: Arc<dyn TraceSink> = Arc::<Spans>::clone(&spans);
        let tracing = self.tracing.with_sink(sink);
        store.sessions = Arc::new(ForgetsSpans::new(store.sessions, Arc::clone(&spans)));
        let activity = Arc::new(RecentCounts::default());
        let counted = inspector::WithActivity::new(store.sessions, Arc::clone(&activity), Arc::clone(&environment));
        store.sessions = Arc::new(counted);
        store.sessions = Arc::new(WithStateMemory::new(store.sessions, limits.body_wait));
        let apps = Apps::new(agents, |name, agent| {
            let runner = Runner::builder(name, Arc::clone(agent), Arc::clone(&store.sessions))
                .artifacts(Arc::clone(&store.artifacts))
                .environment(Arc::clone(&environment))
                .tracing(tracing.clone());
            let runner = self.plugins.iter().fold(runner, |runner, plugin| runner.plugin(Arc::clone(plugin)));
            let runner = if self.resumable { runner.resumable() } else { runner };
            match &self.replay {
                Some(folder) => runner.overrides(Arc::new(folder.clone())),
                None => runner,
            }
        })?;
        let dev_ui = dev_ui.map(DevUi::new).transpose()?;
        let runs = Runs::new(self.max_runs, self.max_waiting_runs, Arc::clone(&environment));
        let origins = Origins::new(&allow_origins)?;
        let url_prefix = self.url_prefix.as_deref().map(UrlPrefix::new).transpose()?.unwrap_or_default();
        let access = login.map_or(Ok(Access::Open), |login| login.open().map(|gate| Access::Login(Arc::new(gate))))?;
        let certificates = tls.map(Tls::open).transpose()?.map(Arc::new);
        let probe = StoreProbe::new(Arc::clone(&store.sessions));
        let readiness = Readiness::new(probe.clone(), access.clone(), Arc::clone(&activity));
        let surfaces: Arc<[Surface]> = surfaces.into();
        let documents = Arc::new(Documents::new(Arc::clone(&surfaces), url_prefix.clone()));
        let app_state = AppState::new(AppStateParts {
            watches: Watches::new(Arc::clone(&store.sessions)),
            store,
            probe,
            apps,
            rates: limits.rate.map(Rates::new).map(Arc::new),
            lanes: Arc::new(Lanes::new(&limits)),
            room: Arc::new(BodyMemory::new(&limits)),
            heavy: Heavy::new(limits.body_wait),
            streams: Streams::new(&limits, &access),
            answers: Budget::new(limits.answer_bytes),
            limits: Arc::new(limits),
            access,
            activity,
            spans,
            certificates,
            closing: Closing::default(),
            runs,
            environment,
            surfaces,
            has_inspector: self.has_inspector,
        });
        Ok(Server { app_state, origins, host, url_prefix, metrics, dev_ui, readiness, documents })
    }
}

fn check_surfaces(surfaces: &[Surface], dev_ui: Option<&PathBuf>) -> Result<()> {
    if surfaces.is_empty() {
        return Err(Error::invalid("no surface is served: leave one of ADK's, /v1 and Vertex AI's on"));
    }
    if dev_ui.is_some() && !surfaces.contains(&Surface::Adk) {
        let message = "ADK's dev interface speaks to ADK's surface, which is not served: serve both or neither";
        return Err(Error::invalid(message));
    }
    Ok(())
}

impl Server {
    /// Begins to build a server over a store.
    #[must_use]
    pub fn builder(store: Store) -> ServerBuilder {
        ServerBuilder {
            store,
            agents: Vec::new(),
            environment: Arc::new(SystemEnvironment),
            login: None,
            allow_origins: Vec::new(),
            host: None,
            url_prefix: None,
            limits: ServerLimits::default(),
            tls: None,
            metrics: None,
            dev_ui: None,
            max_runs: MAX_RUNS,
            max_waiting_runs: MAX_WAITING_RUNS,
            resumable: false,
            replay: None,
            tracing: TraceConfig::default(),
            plugins: Vec::new(),
            surfaces: Surface::ALL.to_vec(),
            has_inspector: true,
        }
    }

    /// Returns all routes for your own server, which may also serve them below one of its paths.
    ///
    /// [`run`](Self::run) limits connections and headers, serves TLS, and refuses to serve other machines without a
    /// login. Your own server has to do that itself.
    pub fn router(&self) -> Router {
        self.router_at(self.host.clone())
    }

    /// Serves a listener until `shutdown` is ready, then finishes the requests and runs in progress.
    ///
    /// After `shutdown` is ready, no more connections are accepted. Requests and runs in progress have
    /// [`shutdown_time`](ServerLimits::shutdown_time) to finish; streams of commits end after the runs. The store stays
    /// open. Closing the store commits the writes that it has accepted.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if other machines can reach the listener and the server requires no login; `Unavailable` if
    /// the listener has no address.
    pub async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let address = listener
            .local_addr()
            .map_err(|e| Error::new(ErrorKind::Unavailable, "the listener has no address").with_source(e))?;
        self.check_address(address)?;
        let router = self.router_at(Some(address.ip().to_canonical().to_string()));
        listen::serve(self.listen_state(), router, listener, shutdown).await;
        Ok(())
    }

    /// Checks that this server may be served at an address; [`run`](Self::run) does the same check. Call this before
    /// listening, to find out earlier.
    ///
    /// # Errors
    ///
    /// `FailedPrecondition` if other machines can reach the address and the server requires no login.
    pub fn check_address(&self, address: SocketAddr) -> Result<()> {
        let ip = address.ip().to_canonical();
        match self.app_state.access {
            Access::Open if !ip.is_loopback() => {
                let message = format!(
                    "{ip} can be reached by others, and nobody has to log in: have callers log in by tokens \
                     (--tokens FILE) or JWTs (--jwks FILE, --jwt-secret-file FILE), or serve 127.0.0.1 alone"
                );
                Err(Error::new(ErrorKind::FailedPrecondition, message))
            }
            _ => Ok(()),
        }
    }

    /// Reads the files of the login and of TLS again, now. Changed files are also read without this call.
    ///
    /// # Errors
    ///
    /// The first error; for a file that cannot be used, its previous content stays in effect.
    pub fn reload(&self) -> Result<()> {
        let login = match &self.app_state.access {
            Access::Open => Ok(()),
            Access::Login(gate) => gate.reload(),
        };
        let tls = self.app_state.certificates.as_ref().map_or(Ok(()), |certificates| certificates.reload());
        login.and(tls)
    }

    #[cfg(test)]
    pub(crate) fn app_state(&self) -> AppState {
        self.app_state.clone()
    }

    fn listen_state(&self) -> Arc<ListenState> {
        Arc::new(ListenState {
            access: self.app_state.access.clone(),
            limits: Arc::clone(&self.app_state.limits),
            certificates: self.app_state.certificates.clone(),
            closing: self.app_state.closing.clone(),
            runs: self.app_state.runs.clone(),
        })
    }

    /// Returns the routes of the pages for people at `/` and below: the dev interface and the inspector. `/` redirects
    /// a browser to the dev interface, or else to the inspector, or else to the documentation. For every other client
    /// it names the documentation and the inspector.
    fn pages(&self) -> Router<AppState> {
        let has_inspector = self.app_state.has_inspector;
        let inspector = if has_inspector { inspector::routes() } else { Router::new() };
        let front = if has_inspector { INSPECTOR } else { "/docs" };
        let root = async move |method: Method, headers: HeaderMap| {
            browser::root(&method, &headers, front).unwrap_or_else(|| adk::nothing_at_root(has_inspector))
        };
        inspector.merge(
            self.dev_ui.as_ref().map_or_else(|| Router::new().route("/", any(root)), |ui| ui.routes(&self.url_prefix)),
        )
    }

    fn router_at(&self, host: Option<String>) -> Router {
        let app_state = &self.app_state;
        let scheme = if app_state.certificates.is_some() { "https" } else { "http" };
        let guard = Guard { origins: self.origins.clone(), host, scheme, prefix_hash: self.url_prefix.hash() };
        let paths = adk::Paths::new(adk::routes(), app_state.clone());
        let browser = BrowserState {
            access: app_state.access.clone(),
            rates: app_state.rates.clone(),
            environment: Arc::clone(&app_state.environment),
        };
        let routes = Router::new()
            .merge(adk::routes())
            .merge(operations::routes(&self.readiness, self.metrics.as_ref()))
            .merge(self.pages())
            .merge(document::routes(&self.documents))
            .merge(v1::routes())
            .merge(vertex::routes())
            .merge(browser::routes(browser).method_not_allowed_fallback(adk::method_not_allowed))
            .fallback(move |request: Request| paths.clone().not_found(request));
        let router = layers::around(routes, app_state, guard, &self.url_prefix);
        if self.url_prefix.as_str().is_empty() {
            return router;
        }
        // The prefix is removed before a route is chosen.
        let prefix = self.url_prefix.clone();
        let stripped = ServiceBuilder::new().map_request(move |request| prefix.strip(request)).service(router);
        Router::new().fallback_service(stripped)
    }
}
