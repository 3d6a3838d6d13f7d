//! Runs a caller's check of the resulting state in a store that has encoded values.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Codec, Coder, Location};
use scratchbook_core::error::Result;
use scratchbook_core::session::{CheckedWrite, StateCheck};
use scratchbook_core::state::Scope;

/// The caller's check. The store runs the check in its commit, and the check sees the decoded values.
#[derive(Debug)]
pub(super) struct OpenedCheck<C> {
    pub(super) coder: Arc<Coder<C>>,
    pub(super) app: String,
    pub(super) user: String,
    pub(super) check: Arc<dyn StateCheck>,
}

impl<C: Codec> OpenedCheck<C> {
    fn open(&self, scope: Scope, name: &str, value: &Value) -> Result<Value> {
        let key = scope.key(name);
        Ok(self.coder.decode_value(value, &Location::value(&self.app, &self.user, &key))?.into_owned())
    }
}

impl<C: Codec> StateCheck for OpenedCheck<C> {
    fn needs_scope(&self, scope: Scope, name: &str) -> bool {
        self.check.needs_scope(scope, name)
    }

    fn check(&self, write: &CheckedWrite<'_>) -> Result<()> {
        let open = |(scope, name, value): (Scope, &str, Option<&Value>)| {
            let value = value.map(|value| self.open(scope, name, value)).transpose()?;
            Ok((scope, name.to_owned(), value))
        };
        let changes = write.changes().map(open).collect::<Result<Vec<_>>>()?;
        let mut before = Vec::new();
        for scope in [Scope::Session, Scope::User, Scope::App] {
            if let Some(values) = write.before(scope) {
                let open = |(name, value): (String, Value)| {
                    let value = self.open(scope, &name, &value)?;
                    Ok((name, value))
                };
                before.push((scope, values.into_iter().map(open).collect::<Result<Map<_, _>>>()?));
            }
        }
        let known = changes.iter().map(|(scope, name, value)| (*scope, name.as_str(), value.as_ref()));
        let opened = before.iter().fold(CheckedWrite::new(known), |write, (scope, values)| {
            write.with_scope(*scope, values.iter().map(|(name, value)| (name.as_str(), value)).collect())
        });
        self.check.check(&opened)
    }
}
