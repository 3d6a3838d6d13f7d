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
    /// The URL of the server, such as https://shop.example:8000 [default: the server on this machine, at the address
    /// that the environment and --config set, or else at http://127.0.0.1:8000]
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The configuration file of the server on this machine [default: $SCRATCHBOOK_CONFIG, or else no file]
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    pub(crate) config: Option<PathBuf>,
    /// Trust only the certificate authorities in this PEM file [default: the certificate authorities of the system]
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) ca: Option<PathBuf>,
}
