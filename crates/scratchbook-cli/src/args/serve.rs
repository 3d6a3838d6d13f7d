//! The options of `scratchbook serve`, on the command line, in the environment and in its file.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use scratchbook_server::Network;

use super::seconds;
use super::values::at_least_one;

pub(super) const SERVE_HELP: &str = "\
Every option can also be set by a variable of the environment, which its help names, or in the \
file that --config names. In the file an option has its name without the leading --, such \
as log-format = \"json\". It can also be in a table: [log], and below it format = \"json\". The \
command line takes precedence over the environment, and the environment over the file.

Examples:
  scratchbook serve
  scratchbook serve --port 0 --database memory: --log-level warn
  scratchbook serve --config scratchbook.toml --print-config";

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on
    #[arg(long, env = "SCRATCHBOOK_HOST", value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The port; 0 takes a free one and prints it
    #[arg(long, env = "SCRATCHBOOK_PORT", value_name = "PORT", default_value_t = 8000)]
    pub(crate) port: u16,
    /// Serve ADK's dev interface at /dev-ui/, from the folder google/adk/cli/browser of the Python package google-adk
    #[arg(long, env = "SCRATCHBOOK_ADK_UI", value_name = "DIR")]
    pub(crate) adk_ui: Option<PathBuf>,
    /// Host the agents in this folder instead of the built-in ones. It has one subfolder per app, with an ADK Agent Config
    /// in root_agent.yaml, or is itself the folder of one app
    #[arg(long, env = "SCRATCHBOOK_AGENTS", value_name = "DIR")]
    pub(crate) agents: Option<PathBuf>,
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
    /// Do not serve the inspector, the pages that show sessions and their state in a browser
    #[arg(long, env = "SCRATCHBOOK_NO_INSPECTOR", value_parser = FalseyValueParser::new())]
    pub(crate) no_inspector: bool,
    /// Use this model for every agent, instead of the one its file names: gemini-2.5-flash, openai::NAME, ollama::NAME
    #[arg(long, env = "SCRATCHBOOK_MODEL", value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// The format of the logs on standard error
    #[arg(long, env = "SCRATCHBOOK_LOG_FORMAT", value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// The lowest level that is logged. At info, each request is one line
    #[arg(long, env = "SCRATCHBOOK_LOG_LEVEL", value_enum, value_name = "LEVEL", default_value_t = LogLevel::Info)]
    pub(crate) log_level: LogLevel,
    /// Send traces to this OpenTelemetry collector with OTLP over HTTP: http://localhost:4318
    #[cfg(feature = "otel")]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// Add the ids of sessions to the spans of runs that are sent
    #[cfg(feature = "otel")]
    #[arg(long, env = "SCRATCHBOOK_TRACE_SESSION_IDS")]
    pub(crate) trace_session_ids: bool,
    /// Add what models are asked and answer to the spans that are sent
    #[cfg(feature = "otel")]
    #[arg(long, env = "SCRATCHBOOK_TRACE_TEXTS")]
    pub(crate) trace_texts: bool,
    /// A TOML file that sets these options
    #[arg(long, env = "SCRATCHBOOK_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the settings and where each comes from, without passwords, and exit
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
    /// Require a login with a token of this TOML file; see `scratchbook token new`
    #[arg(long, env = "SCRATCHBOOK_TOKENS", value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// If no other login is configured, make a token at the first start, keep it in the file DIR/token, which only its
    /// owner can read, and require it
    #[arg(long, env = "SCRATCHBOOK_MAKE_TOKEN", value_name = "DIR")]
    pub(crate) make_token: Option<PathBuf>,
    /// Require a login with a JWT signed by a key of this JWKS file: EdDSA or RS256
    #[arg(long, env = "SCRATCHBOOK_JWKS", value_name = "FILE")]
    pub(crate) jwks: Option<PathBuf>,
    /// Require a login with a JWT signed with the secret in this file, of at least 32 bytes: HS256
    #[arg(long, env = "SCRATCHBOOK_JWT_SECRET_FILE", value_name = "FILE")]
    pub(crate) jwt_secret_file: Option<PathBuf>,
    /// The issuer that JWTs must have
    #[arg(long, env = "SCRATCHBOOK_JWT_ISSUER", value_name = "ISSUER")]
    pub(crate) jwt_issuer: Option<String>,
    /// The audience that JWTs must have
    #[arg(long, env = "SCRATCHBOOK_JWT_AUDIENCE", value_name = "AUDIENCE")]
    pub(crate) jwt_audience: Option<String>,
    /// Allow requests from web pages of this origin: https://shop.example, regex:EXPRESSION, or *; can be repeated
    #[arg(long, env = "SCRATCHBOOK_ALLOW_ORIGINS", value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) allow_origins: Vec<String>,
    /// Serve TLS with this certificate chain, a PEM file
    #[arg(long, env = "SCRATCHBOOK_TLS_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate: a PEM file
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
    /// The maximum size of a response, in bytes. Lists get shorter pages; other responses fail with 413
    #[arg(long, env = "SCRATCHBOOK_MAX_ANSWER_BYTES", value_name = "BYTES", default_value = "33554432",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_answer_bytes: NonZeroUsize,
    /// The maximum number of events in the body that creates a session
    #[arg(long, env = "SCRATCHBOOK_MAX_BODY_EVENTS", value_name = "N", default_value = "20000",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_body_events: NonZeroUsize,
    /// The maximum memory for the bodies of all concurrent requests, in bytes; further requests wait, then fail with 503
    #[arg(long, env = "SCRATCHBOOK_MAX_BODY_MEMORY", value_name = "BYTES", default_value = "536870912",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_body_memory: NonZeroUsize,
    /// The maximum number of connections; the limit on open files may lower it. When it is reached, idle connections are
    /// closed
    #[arg(long, env = "SCRATCHBOOK_MAX_CONNECTIONS", value_name = "N", default_value = "8192",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_connections: NonZeroUsize,
    /// The maximum number of connections from one address before a login; local addresses are exempt
    #[arg(long, env = "SCRATCHBOOK_MAX_CONNECTIONS_BEFORE_LOGIN", value_name = "N", default_value = "64",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_connections_before_login: NonZeroUsize,
    /// The address of a proxy that connects for many clients: 10.0.0.7 or 10.0.0.0/8; can be repeated
    #[arg(long, env = "SCRATCHBOOK_TRUSTED_PROXY", value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) trusted_proxy: Vec<Network>,
    /// The maximum number of concurrent streams of one login for one user; more are refused
    #[arg(long, env = "SCRATCHBOOK_MAX_STREAMS", value_name = "N", default_value = "256",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_streams: NonZeroUsize,
    /// The maximum number of concurrent requests; further ones wait, and callers take turns
    #[arg(long, env = "SCRATCHBOOK_MAX_CONCURRENT_REQUESTS", value_name = "N", default_value = "128",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_concurrent_requests: NonZeroUsize,
    /// The maximum number of concurrent heavy reads, such as of whole sessions; further ones wait
    /// [default: half the number of cores]
    #[arg(long, env = "SCRATCHBOOK_MAX_HEAVY_READS", value_name = "N", value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_heavy_reads: Option<NonZeroUsize>,
    /// The maximum number of concurrent heavy writes: of 256 KiB or more, forks and deletions; further ones wait
    #[arg(long, env = "SCRATCHBOOK_MAX_HEAVY_WRITES", value_name = "N", default_value = "1",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_heavy_writes: NonZeroUsize,
    /// The maximum number of concurrent agent runs, at most half of them by one caller; more are refused
    #[arg(long, env = "SCRATCHBOOK_MAX_RUNS", value_name = "N", default_value = "1000",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_runs: NonZeroUsize,
    /// The maximum number of runs that wait for another run of their session; more are refused
    #[arg(long, env = "SCRATCHBOOK_MAX_WAITING_RUNS_PER_SESSION", value_name = "N", default_value = "8")]
    pub(crate) max_waiting_runs_per_session: usize,
    /// The maximum number of requests per second of one token, or of one address without a login; more fail with 429
    #[arg(long, env = "SCRATCHBOOK_MAX_REQUESTS_PER_SECOND", value_name = "N",
        value_parser = at_least_one::<NonZeroU32>)]
    pub(crate) max_requests_per_second: Option<NonZeroU32>,
    /// The time limit until a response begins, in seconds; runs have none
    #[arg(long, env = "SCRATCHBOOK_ANSWER_SECONDS", value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) answer_seconds: Duration,
    /// The time limit for requests in progress at shutdown, in seconds
    #[arg(long, env = "SCRATCHBOOK_SHUTDOWN_SECONDS", value_name = "SECONDS", default_value = "30",
        value_parser = seconds)]
    pub(crate) shutdown_seconds: Duration,
}

/// The format of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// Lines of JSON
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
