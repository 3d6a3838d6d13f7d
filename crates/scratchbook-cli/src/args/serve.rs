//! The options of `scratchbook serve`, on the command line, in the environment and in its file.

use std::io::{self, IsTerminal};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use scratchbook_server::Network;

use super::seconds;
use super::values::at_least_one;

pub(super) const SERVE_HELP: &str = "\
Most options can also be set by an environment variable, which the help shows as [env: NAME=] or \
as $NAME, or in the TOML file that --config names. The file cannot set --config, --print-config and \
--json. In the file, write an option without the leading --, such as log-format = \"json\". You can \
also split the name and use a table: format = \"json\" in the table [log]. The command line takes \
precedence over the environment, and the environment over the file.

Examples:
  scratchbook serve
  scratchbook serve --port 0 --database memory: --log-level warn
  scratchbook serve --config scratchbook.toml --print-config";

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address on which the server listens
    #[arg(long, env = "SCRATCHBOOK_HOST", value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The port on which the server listens. With 0, the server chooses a free port and prints it
    #[arg(long, env = "SCRATCHBOOK_PORT", value_name = "PORT", default_value_t = 8000)]
    pub(crate) port: u16,
    /// Serve ADK's web interface for development at /dev-ui/. DIR is the folder google/adk/cli/browser of the installed
    /// Python package google-adk
    #[arg(long, env = "SCRATCHBOOK_ADK_UI", value_name = "DIR")]
    pub(crate) adk_ui: Option<PathBuf>,
    /// Host the agents in this folder instead of the built-in agents. The folder contains either one root_agent.yaml,
    /// an ADK Agent Config, or one subfolder for each app with such a file
    #[arg(long, env = "SCRATCHBOOK_AGENTS", value_name = "DIR")]
    pub(crate) agents: Option<PathBuf>,
    /// Let agents' files name programs that are started as MCP servers. The author of such a file can run any program
    /// on this machine
    #[arg(long, env = "SCRATCHBOOK_ALLOW_STDIO_MCP", value_parser = FalseyValueParser::new())]
    pub(crate) allow_stdio_mcp: bool,
    /// Replay the recordings of test cases in this folder for `adk conformance test`. A run replays a recording if the
    /// state of its session has the key _adk_replay_config. Do not use this on a server with real users
    #[arg(long, env = "SCRATCHBOOK_CONFORMANCE", value_name = "DIR")]
    pub(crate) conformance: Option<PathBuf>,
    /// Do not host the built-in agents
    #[arg(long, env = "SCRATCHBOOK_NO_DEMO", value_parser = FalseyValueParser::new())]
    pub(crate) no_demo: bool,
    /// Do not serve ADK's API, which google-adk's clients use
    #[arg(long, env = "SCRATCHBOOK_NO_ADK", value_parser = FalseyValueParser::new())]
    pub(crate) no_adk: bool,
    /// Do not serve the API under /v1
    #[arg(long, env = "SCRATCHBOOK_NO_V1", value_parser = FalseyValueParser::new())]
    pub(crate) no_v1: bool,
    /// Do not serve the API of Vertex AI Agent Engine Sessions
    #[arg(long, env = "SCRATCHBOOK_NO_VERTEX", value_parser = FalseyValueParser::new())]
    pub(crate) no_vertex: bool,
    /// Do not serve the inspector, which shows sessions and their state in a browser
    #[arg(long, env = "SCRATCHBOOK_NO_INSPECTOR", value_parser = FalseyValueParser::new())]
    pub(crate) no_inspector: bool,
    /// Use this model for every agent, such as gemini-2.5-flash, openai::NAME or ollama::NAME [default: the model that
    /// the agent's file names; for the built-in agents, a script]
    #[arg(long, env = "SCRATCHBOOK_MODEL", value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// The format of the logs on standard error
    #[arg(long, env = "SCRATCHBOOK_LOG_FORMAT", value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// The lowest level that is logged. At the level info, the server logs one line for each request [default: warn if
    /// standard error is a terminal, else info]
    #[arg(long, env = "SCRATCHBOOK_LOG_LEVEL", value_enum, value_name = "LEVEL", hide_default_value = true,
        default_value_t = LogLevel::by_default(io::stderr().is_terminal()))]
    pub(crate) log_level: LogLevel,
    /// Send traces to the OpenTelemetry collector at this URL, such as http://localhost:4318, with OTLP over HTTP
    /// [default: no traces are sent]
    #[cfg(feature = "otel")]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// Include session ids in the traces
    #[cfg(feature = "otel")]
    #[arg(long, env = "SCRATCHBOOK_TRACE_SESSION_IDS")]
    pub(crate) trace_session_ids: bool,
    /// Include the texts that models receive and generate in the traces
    #[cfg(feature = "otel")]
    #[arg(long, env = "SCRATCHBOOK_TRACE_TEXTS")]
    pub(crate) trace_texts: bool,
    /// Print the address of this page of the inspector, such as apps/APP/users/USER/sessions/SESSION, with the URL
    #[arg(long, hide = true, value_name = "PAGE")]
    pub(crate) show: Option<String>,
    /// Read options from this TOML file
    #[arg(long, env = "SCRATCHBOOK_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print all options, without passwords, and the source of each, and exit
    #[arg(long)]
    pub(crate) print_config: bool,
}

/// The heading of the options in [`AccessArgs`].
const ACCESS: &str = "Access";
/// The heading of the options in [`LimitArgs`].
const LIMITS: &str = "Limits";

/// Authentication, origins and TLS.
#[derive(Debug, Args)]
#[command(next_help_heading = ACCESS)]
pub(crate) struct AccessArgs {
    /// Require a login, and accept the tokens in this TOML file. `scratchbook token new` creates tokens
    #[arg(long, env = "SCRATCHBOOK_TOKENS", value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// If no other login is configured, require a login with a token that the server creates at its first start. The
    /// server writes the token to the file DIR/token, which only the file's owner can read
    #[arg(long, env = "SCRATCHBOOK_MAKE_TOKEN", value_name = "DIR")]
    pub(crate) make_token: Option<PathBuf>,
    /// Require a login, and accept JWTs signed by a key in this JWKS file, with EdDSA or RS256
    #[arg(long, env = "SCRATCHBOOK_JWKS", value_name = "FILE")]
    pub(crate) jwks: Option<PathBuf>,
    /// Require a login, and accept JWTs signed by the secret in this file, with HS256. The secret must have at least 32
    /// bytes
    #[arg(long, env = "SCRATCHBOOK_JWT_SECRET_FILE", value_name = "FILE")]
    pub(crate) jwt_secret_file: Option<PathBuf>,
    /// The issuer (iss) that JWTs must have [default: the issuer is not checked]
    #[arg(long, env = "SCRATCHBOOK_JWT_ISSUER", value_name = "ISSUER")]
    pub(crate) jwt_issuer: Option<String>,
    /// The audience (aud) that JWTs must have [default: JWTs with an audience are refused]
    #[arg(long, env = "SCRATCHBOOK_JWT_AUDIENCE", value_name = "AUDIENCE")]
    pub(crate) jwt_audience: Option<String>,
    /// Allow requests from web pages of this origin, such as https://shop.example; can be repeated. regex:EXPRESSION
    /// allows all origins that match, and * allows all origins
    #[arg(long, env = "SCRATCHBOOK_ALLOW_ORIGINS", value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) allow_origins: Vec<String>,
    /// The path below which a proxy serves this server, such as /agents/shop. The proxy may remove it from requests or
    /// not
    #[arg(long, env = "SCRATCHBOOK_URL_PREFIX", value_name = "PATH")]
    pub(crate) url_prefix: Option<String>,
    /// Serve with TLS, using the certificate chain in this PEM file
    #[arg(long, env = "SCRATCHBOOK_TLS_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The PEM file with the private key of the certificate
    #[arg(long, env = "SCRATCHBOOK_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
}

impl AccessArgs {
    /// Returns whether callers have to log in.
    pub(crate) fn has_login(&self) -> bool {
        let Self { tokens, jwks, jwt_secret_file, .. } = self;
        [tokens, jwks, jwt_secret_file].into_iter().any(Option::is_some)
    }

    /// Returns whether the server has files that it can read again.
    pub(crate) fn has_files(&self) -> bool {
        self.has_login() || self.tls_cert.is_some()
    }
}

/// Limits on sizes, numbers and times.
#[derive(Debug, Args)]
#[command(next_help_heading = LIMITS)]
pub(crate) struct LimitArgs {
    /// The maximum size of a request body, in bytes
    #[arg(long, env = "SCRATCHBOOK_MAX_BODY_BYTES", value_name = "BYTES", default_value = "37748736",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_body_bytes: NonZeroUsize,
    /// The maximum size of a response, in bytes. A page of a list is shortened to fit. If any other response is larger,
    /// the request gets the status 413
    #[arg(long, env = "SCRATCHBOOK_MAX_ANSWER_BYTES", value_name = "BYTES", default_value = "33554432",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_answer_bytes: NonZeroUsize,
    /// The maximum number of events in a request that creates a session
    #[arg(long, env = "SCRATCHBOOK_MAX_BODY_EVENTS", value_name = "N", default_value = "20000",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_body_events: NonZeroUsize,
    /// The maximum memory for all request bodies at a time, in bytes. Further requests wait for up to 5 seconds, and
    /// then get the status 503
    #[arg(long, env = "SCRATCHBOOK_MAX_BODY_MEMORY", value_name = "BYTES", default_value = "536870912",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_body_memory: NonZeroUsize,
    /// The maximum number of open connections. It is lower if the operating system does not allow that many open files.
    /// At the maximum, the server closes idle connections to make room for new ones
    #[arg(long, env = "SCRATCHBOOK_MAX_CONNECTIONS", value_name = "N", default_value = "8192",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_connections: NonZeroUsize,
    /// The maximum number of open connections from one address that are not logged in. Connections from this machine
    /// (loopback) and from a --trusted-proxy are not counted. If the server requires no login, there is no such limit
    #[arg(long, env = "SCRATCHBOOK_MAX_CONNECTIONS_BEFORE_LOGIN", value_name = "N", default_value = "64",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_connections_before_login: NonZeroUsize,
    /// The address or the network of a proxy, such as 10.0.0.7 or 10.0.0.0/8; can be repeated.
    /// --max-connections-before-login does not count connections from the proxy
    #[arg(long, env = "SCRATCHBOOK_TRUSTED_PROXY", value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) trusted_proxy: Vec<Network>,
    /// The maximum number of streams that one login can have open for one user. Further streams get the status 429. If
    /// the server requires no login, the number is not limited
    #[arg(long, env = "SCRATCHBOOK_MAX_STREAMS", value_name = "N", default_value = "256",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_streams: NonZeroUsize,
    /// The maximum number of requests that are processed at a time. Further requests wait, and the server serves the
    /// waiting callers in turn
    #[arg(long, env = "SCRATCHBOOK_MAX_CONCURRENT_REQUESTS", value_name = "N", default_value = "128",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_concurrent_requests: NonZeroUsize,
    /// The maximum number of heavy reads at a time, such as reads of whole sessions. Further heavy reads wait [default:
    /// half the number of cores]
    #[arg(long, env = "SCRATCHBOOK_MAX_HEAVY_READS", value_name = "N", value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_heavy_reads: Option<NonZeroUsize>,
    /// The maximum number of heavy writes at a time. These are requests with a body of 256 KiB or more, forks, rewinds,
    /// pruning, and deletions of sessions and users. Further heavy writes wait
    #[arg(long, env = "SCRATCHBOOK_MAX_HEAVY_WRITES", value_name = "N", default_value = "1",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_heavy_writes: NonZeroUsize,
    /// The maximum number of agent runs at a time. One caller can have at most half of them. Further runs get the
    /// status 429
    #[arg(long, env = "SCRATCHBOOK_MAX_RUNS", value_name = "N", default_value = "1000",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_runs: NonZeroUsize,
    /// The maximum number of runs that wait for another run of the same session. Further runs get the status 429
    #[arg(long, env = "SCRATCHBOOK_MAX_WAITING_RUNS_PER_SESSION", value_name = "N", default_value = "8")]
    pub(crate) max_waiting_runs_per_session: usize,
    /// The maximum number of requests per second from one token, or from one address if the server requires no login.
    /// Further requests get the status 429 [default: no limit]
    #[arg(long, env = "SCRATCHBOOK_MAX_REQUESTS_PER_SECOND", value_name = "N",
        value_parser = at_least_one::<NonZeroU32>)]
    pub(crate) max_requests_per_second: Option<NonZeroU32>,
    /// How long a connection without a request is kept, in seconds. Set it higher than the time for which a load
    /// balancer keeps its connections
    #[arg(long, env = "SCRATCHBOOK_IDLE_SECONDS", value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    pub(crate) idle_seconds: Duration,
    /// The time within which a response must begin, in seconds. Otherwise the request gets the status 503. Requests
    /// that start runs are not limited
    #[arg(long, env = "SCRATCHBOOK_ANSWER_SECONDS", value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) answer_seconds: Duration,
    /// How long requests and runs in progress can continue at shutdown, in seconds
    #[arg(long, env = "SCRATCHBOOK_SHUTDOWN_SECONDS", value_name = "SECONDS", default_value = "30",
        value_parser = seconds)]
    pub(crate) shutdown_seconds: Duration,
}

/// The format of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines of text, for people
    Text,
    /// Lines of JSON, for programs
    Json,
}

/// The lowest level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// A person at a terminal reads the banner, which one line for each request would push away.
    fn by_default(is_terminal: bool) -> Self {
        if is_terminal { Self::Warn } else { Self::Info }
    }
}
