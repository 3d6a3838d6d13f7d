//! The arguments of the commands that set things up: new, completions and man.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::named;

pub(super) const NEW_EXAMPLES: &str = "\
Examples:
  scratchbook new my_agent
  scratchbook new my_agent --model gemini-2.5-flash";

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  scratchbook completions bash \\
    > ~/.local/share/bash-completion/completions/scratchbook
  scratchbook completions zsh > ~/.zfunc/_scratchbook
  scratchbook completions fish > ~/.config/fish/completions/scratchbook.fish";

#[derive(Debug, Args)]
pub(crate) struct NewArgs {
    /// The folder to create. Its name becomes the name of the app
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The agent's model, such as gemini-2.5-flash, openai::NAME or ollama::NAME. The default, shop, is a script that
    /// works offline
    #[arg(long, short, default_value = "shop", value_parser = named)]
    pub(crate) model: String,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder for the pages. The command creates it if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}
