//! The arguments of `scratchbook health`.

use std::path::PathBuf;

use clap::Args;

pub(super) const HEALTH_EXAMPLES: &str = "\
Examples:
  scratchbook health
  scratchbook health --config scratchbook.toml
  scratchbook health https://shop.example:8000 --ca ca.crt";

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// The server, such as https://shop.example:8000 [default: the server on this machine; its port and its TLS are read
    /// from the environment, as SCRATCHBOOK_PORT, and from the configuration file]
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The configuration file of the server on this machine [default: $SCRATCHBOOK_CONFIG]
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    pub(crate) config: Option<PathBuf>,
    /// Trust the authorities in this PEM file [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) ca: Option<PathBuf>,
}
