//! Replaces `serve`, `health` and `token` in a program without the feature `serve`. They report that the feature
//! is missing.

use scratchbook::{Error, ErrorKind};

use crate::args::{HealthArgs, NewTokenArgs, ServeArgs};
use crate::context::Context;
use crate::failure::CommandFailure;
use crate::output::Output;

pub(crate) mod config {
    use std::ffi::OsString;

    use clap::FromArgMatches;

    use crate::args::{self, Cli};
    use crate::failure::CommandFailure;

    /// A setting of a server, which cannot be made.
    #[derive(Debug)]
    pub(crate) enum Setting {}

    /// An error in the command line.
    #[derive(Debug)]
    pub(crate) enum ParseFailure {
        /// The command line is invalid, or asks for help.
        Usage(clap::Error),
        /// The config file is invalid. Without a server no file is read.
        #[expect(dead_code, reason = "the server's parser fails with it")]
        File(CommandFailure),
    }

    pub(crate) fn parse(arguments: &[OsString]) -> Result<(Cli, Vec<Setting>), ParseFailure> {
        let parsed =
            args::command().try_get_matches_from(arguments).and_then(|matches| Cli::from_arg_matches(&matches));
        parsed.map(|cli| (cli, Vec::new())).map_err(ParseFailure::Usage)
    }
}

pub(crate) mod serve {
    use super::{CommandFailure, Context, Output, ServeArgs, config, missing};

    pub(crate) async fn serve(
        _: &Context,
        _: ServeArgs,
        _: &[config::Setting],
        _: &mut Output,
    ) -> Result<(), CommandFailure> {
        Err(missing())
    }
}

pub(crate) mod health {
    use super::{CommandFailure, Context, HealthArgs, Output, missing};

    pub(crate) async fn health(_: &Context, _: HealthArgs, _: &mut Output) -> Result<(), CommandFailure> {
        Err(missing())
    }
}

pub(crate) mod token {
    use super::{CommandFailure, NewTokenArgs, Output, missing};

    pub(crate) fn new(_: NewTokenArgs, _: &mut Output) -> Result<(), CommandFailure> {
        Err(missing())
    }
}

fn missing() -> CommandFailure {
    let message = "this scratchbook was built without its server; build it with --features serve";
    Error::new(ErrorKind::Unsupported, message).into()
}
