//! What can be written after `scratchbook serve`, in its file, and in the environment.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::Setting;

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
    /// What is used and where it comes from.
    #[arg(skip)]
    pub(crate) settings: Vec<Setting>,
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
