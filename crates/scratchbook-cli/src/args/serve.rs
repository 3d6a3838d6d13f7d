//! What can be written after `scratchbook serve`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on
    #[arg(long, env = "SCRATCHBOOK_HOST", value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The port; 0 takes any that is free, and says which
    #[arg(long, env = "SCRATCHBOOK_PORT", value_name = "PORT", default_value_t = 8000)]
    pub(crate) port: u16,
}
