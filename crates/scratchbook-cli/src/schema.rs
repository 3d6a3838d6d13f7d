//! The schema that `--schema` names, and what it refuses.

use std::sync::Arc;

use scratchbook::layer::WithStateSchema;
use scratchbook::{Error, SessionService};

pub(crate) use scratchbook::layer::StateSchema;

/// Parses a schema.
pub(crate) fn parse(text: &str) -> Result<StateSchema, Error> {
    StateSchema::from_json(text)
}

/// Refuses writes to an app's state that violate a schema.
pub(crate) fn guarded(sessions: Arc<dyn SessionService>, app: &str, schema: StateSchema) -> Arc<dyn SessionService> {
    Arc::new(WithStateSchema::new(sessions).with_app(app, schema))
}
