//! What can be written after `scratchbook serve`, in its file, and in the environment.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::FalseyValueParser;
use clap::{Args, ValueEnum};
use scratchbook_server::Network;

use super::seconds;
use super::values::at_least_one;

pub(super) const SERVE_HELP: &str = "\
Every option can be set in the environment, and in the file that --config names: there without the dashes, as
log-format = \"json\", or in a table, [log] format = \"json\". What is written on the command line comes first, then the
environment, then the file.

Examples:
  scratchbook serve
  scratchbook serve --port 0 --database memory: --log-level warn
  scratchbook serve --config scratchbook.toml --print-config";

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on
    #[arg(long, env = "SCRATCHBOOK_HOST", value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The port; 0 takes any that is free, and says which
    #[arg(long, env = "SCRATCHBOOK_PORT", value_name = "PORT", default_value_t = 8000)]
    pub(crate) port: u16,
    /// Serve ADK's dev interface at /dev-ui/, from the folder google/adk/cli/browser of the Python package google-adk
    #[arg(long, env = "SCRATCHBOOK_ADK_UI", value_name = "DIR")]
    pub(crate) adk_ui: Option<PathBuf>,
    /// Host the agents of this folder: a folder for each app with a root_agent.yaml, ADK's Agent Config
    #[arg(long, env = "SCRATCHBOOK_AGENTS", value_name = "DIR")]
    pub(crate) agents: Option<PathBuf>,
    /// Host no agents where no folder is named: sessions and state alone
    #[arg(long, env = "SCRATCHBOOK_NO_DEMO", value_parser = FalseyValueParser::new())]
    pub(crate) no_demo: bool,
    /// Do not serve ADK's API, which google-adk's clients speak
    #[arg(long, env = "SCRATCHBOOK_NO_ADK", value_parser = FalseyValueParser::new())]
    pub(crate) no_adk: bool,
    /// Do not serve the API below /v1, nor its document at /docs
    #[arg(long, env = "SCRATCHBOOK_NO_V1", value_parser = FalseyValueParser::new())]
    pub(crate) no_v1: bool,
    /// Do not serve Agent Engine Sessions of Vertex AI
    #[arg(long, env = "SCRATCHBOOK_NO_VERTEX", value_parser = FalseyValueParser::new())]
    pub(crate) no_vertex: bool,
    /// Have every agent answer by this model, whatever its file names: gemini-2.5-flash, openai::NAME, ollama::NAME
    #[arg(long, env = "SCRATCHBOOK_MODEL", value_name = "MODEL")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    /// How logs are written, to standard error
    #[arg(long, env = "SCRATCHBOOK_LOG_FORMAT", value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// What is logged: this and what is worse. At info each request is one line
    #[arg(long, env = "SCRATCHBOOK_LOG_LEVEL", value_enum, value_name = "LEVEL", default_value_t = LogLevel::Info)]
    pub(crate) log_level: LogLevel,
    /// Send traces to this OpenTelemetry collector by OTLP over HTTP, such as http://localhost:4318
    #[cfg(feature = "otel")]
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// A TOML file with values for these options
    #[arg(long, env = "SCRATCHBOOK_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print what would be used and where it comes from, passwords hidden, and do nothing else
    #[arg(long)]
    pub(crate) print_config: bool,
}

/// The heading over who may call, and by what way.
const ACCESS: &str = "Access";
/// The heading over how much and how long.
const LIMITS: &str = "Limits";

/// Who may call, and by what way.
#[derive(Debug, Args)]
#[command(next_help_heading = ACCESS)]
pub(crate) struct AccessArgs {
    /// Have callers log in by the tokens of this TOML file, see scratchbook token
    #[arg(long, env = "SCRATCHBOOK_TOKENS", value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// Have callers log in by JWTs signed with a key of this JWKS file: EdDSA or RS256
    #[arg(long, env = "SCRATCHBOOK_JWKS", value_name = "FILE")]
    pub(crate) jwks: Option<PathBuf>,
    /// Have callers log in by JWTs signed with the secret in this file, of 32 bytes or more: HS256
    #[arg(long, env = "SCRATCHBOOK_JWT_SECRET_FILE", value_name = "FILE")]
    pub(crate) jwt_secret_file: Option<PathBuf>,
    /// The issuer that JWTs must be from
    #[arg(long, env = "SCRATCHBOOK_JWT_ISSUER", value_name = "ISSUER")]
    pub(crate) jwt_issuer: Option<String>,
    /// The audience that JWTs must be for
    #[arg(long, env = "SCRATCHBOOK_JWT_AUDIENCE", value_name = "AUDIENCE")]
    pub(crate) jwt_audience: Option<String>,
    /// Let pages of this origin call: https://shop.example, regex:EXPRESSION, or *; may be given several times
    #[arg(long, env = "SCRATCHBOOK_ALLOW_ORIGINS", value_name = "ORIGIN", value_delimiter = ',')]
    pub(crate) allow_origins: Vec<String>,
    /// Speak TLS with this certificate, and those up to its root after it: a PEM file
    #[arg(long, env = "SCRATCHBOOK_TLS_CERT", value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The private key of the certificate: a PEM file
    #[arg(long, env = "SCRATCHBOOK_TLS_KEY", value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
}

/// How much and how long.
#[derive(Debug, Args)]
#[command(next_help_heading = LIMITS)]
pub(crate) struct LimitArgs {
    /// The longest body of a request, in bytes
    #[arg(long, env = "SCRATCHBOOK_MAX_BODY_BYTES", value_name = "BYTES", default_value = "37748736",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_body_bytes: NonZeroUsize,
    /// The longest answer, in bytes; what has pages has smaller ones, and what has none answers 413
    #[arg(long, env = "SCRATCHBOOK_MAX_ANSWER_BYTES", value_name = "BYTES", default_value = "33554432",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_answer_bytes: NonZeroUsize,
    /// The most events in a body, that a session begins with
    #[arg(long, env = "SCRATCHBOOK_MAX_BODY_EVENTS", value_name = "N", default_value = "20000",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_body_events: NonZeroUsize,
    /// The most bytes of memory that the bodies of all requests take at a time; more wait, and answer 503 then
    #[arg(long, env = "SCRATCHBOOK_MAX_BODY_MEMORY", value_name = "BYTES", default_value = "536870912",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_body_memory: NonZeroUsize,
    /// The most connections at a time, as far as open files allow; one that is not in use makes room for the next
    #[arg(long, env = "SCRATCHBOOK_MAX_CONNECTIONS", value_name = "N", default_value = "8192",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_connections: NonZeroUsize,
    /// The most connections of one address on which nobody has logged in yet; not for this machine's own
    #[arg(long, env = "SCRATCHBOOK_MAX_CONNECTIONS_BEFORE_LOGIN", value_name = "N", default_value = "64",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_connections_before_login: NonZeroUsize,
    /// Addresses of proxies, whose connections are of many clients: 10.0.0.7 or 10.0.0.0/8; may be given several times
    #[arg(long, env = "SCRATCHBOOK_TRUSTED_PROXY", value_name = "ADDRESS", value_delimiter = ',')]
    pub(crate) trusted_proxy: Vec<Network>,
    /// The most streams at a time that one login follows for one user; more are refused
    #[arg(long, env = "SCRATCHBOOK_MAX_STREAMS", value_name = "N", default_value = "256",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_streams: NonZeroUsize,
    /// The most requests that are worked on at a time; more wait, and callers take turns
    #[arg(long, env = "SCRATCHBOOK_MAX_CONCURRENT_REQUESTS", value_name = "N", default_value = "128",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_concurrent_requests: NonZeroUsize,
    /// The most reads of whole sessions and other heavy reads at a time, half as many as there are cores otherwise; more
    /// wait
    #[arg(long, env = "SCRATCHBOOK_MAX_HEAVY_READS", value_name = "N", value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_heavy_reads: Option<NonZeroUsize>,
    /// The most writes of 256 KiB and more, forks and removals at a time; more wait
    #[arg(long, env = "SCRATCHBOOK_MAX_HEAVY_WRITES", value_name = "N", default_value = "1",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_heavy_writes: NonZeroUsize,
    /// The most runs of agents at a time, of which one caller has no more than half; more are refused
    #[arg(long, env = "SCRATCHBOOK_MAX_RUNS", value_name = "N", default_value = "1000",
        value_parser = at_least_one::<NonZeroUsize>)]
    pub(crate) max_runs: NonZeroUsize,
    /// The most runs that wait for another run of their session; more are refused
    #[arg(long, env = "SCRATCHBOOK_MAX_WAITING_RUNS_PER_SESSION", value_name = "N", default_value = "8")]
    pub(crate) max_waiting_runs_per_session: usize,
    /// The most requests a second of one token, or without a login of one address; more answer 429
    #[arg(long, env = "SCRATCHBOOK_MAX_REQUESTS_PER_SECOND", value_name = "N",
        value_parser = at_least_one::<NonZeroU32>)]
    pub(crate) max_requests_per_second: Option<NonZeroU32>,
    /// How long an answer may take to begin unless the request begins a run, in seconds
    #[arg(long, env = "SCRATCHBOOK_ANSWER_SECONDS", value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub(crate) answer_seconds: Duration,
    /// How long what was begun is waited for at the end, in seconds
    #[arg(long, env = "SCRATCHBOOK_SHUTDOWN_SECONDS", value_name = "SECONDS", default_value = "30",
        value_parser = seconds)]
    pub(crate) shutdown_seconds: Duration,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line for people
    Text,
    /// A line of JSON
    Json,
}

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}
