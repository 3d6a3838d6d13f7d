//! Replaces schemas in a program without the feature `schema`. Such a program cannot read schemas.

use std::sync::Arc;

use scratchbook::{Error, ErrorKind, Result, SessionService};

use crate::args::SchemaCheckArgs;
use crate::context::Context;
use crate::failure::CommandFailure;
use crate::output::Output;

/// A schema, which cannot be made.
#[derive(Clone, Debug)]
pub(crate) enum StateSchema {}

pub(crate) fn parse(_: &str) -> Result<StateSchema> {
    Err(missing())
}

pub(crate) fn guarded(_: Arc<dyn SessionService>, _: &str, schema: StateSchema) -> Arc<dyn SessionService> {
    match schema {}
}

pub(crate) async fn check(_: &Context, _: SchemaCheckArgs, _: &mut Output) -> Result<(), CommandFailure> {
    Err(missing().into())
}

fn missing() -> Error {
    let message = "this scratchbook was built without schemas; build it with --features schema";
    Error::new(ErrorKind::Unsupported, message)
}
