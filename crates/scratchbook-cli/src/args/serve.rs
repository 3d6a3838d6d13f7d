//! What can be written after `scratchbook serve`.

use std::path::PathBuf;

use clap::Args;

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
}
