//! Validates writes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::compiled::Compiled;
use super::violation::{MemberCount, Violation, violations};
use super::{StateSchema, is_of_framework};
use scratchbook_core::error::{Error, Result};
use scratchbook_core::session::{CheckedWrite, StateCheck};
use scratchbook_core::state::{Scope, StateDelta};

impl StateSchema {
    /// Validates the values that a delta sets, as far as this is possible without stored data. These values are checked
    /// against the schemas of keys, and against the schemas of scopes that validate each key separately. Keys are named
    /// with their prefix.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` names the key, the place in its value, what the schema requires, and its version; never
    /// the value.
    pub fn check_delta(&self, delta: &StateDelta) -> Result<()> {
        delta.iter().try_for_each(|(key, change)| {
            let (scope, name) = Scope::split(key);
            self.check_value(scope, name, change.value())
        })
    }

    pub(super) fn check_value(&self, scope: Scope, name: &str, value: Option<&Value>) -> Result<()> {
        // An absent key breaks no schema of its own.
        let Some(value) = value else {
            return Ok(());
        };
        if let Some(schema) = self.key(scope, name)
            && let Some(violation) = first(schema, value)
        {
            return Err(self.refused(&format!("'{}'", scope.key(name)), &violation));
        }
        if let Some(schema) = self.scope_of(scope, name).filter(|schema| schema.is_of_single_keys()) {
            let alone = Value::Object(Map::from_iter([(name.to_owned(), value.clone())]));
            if let Some(mut violation) = first(schema, &alone) {
                // In an object with one member, any error is an error of that member.
                if violation.path.is_empty() {
                    violation.path.push(name.to_owned());
                }
                return Err(self.refused_in(scope, violation));
            }
        }
        Ok(())
    }

    /// Validates a scope as one object. Errors that existed before the write are ignored if the write does not touch
    /// them.
    fn check_scope(&self, scope: Scope, schema: &Compiled, write: &CheckedWrite<'_>) -> Result<()> {
        let Some((before, after)) = write.before(scope).zip(write.after(scope)) else {
            return Err(Error::internal("a scope that was to be read was not; this is a defect of the store"));
        };
        let (before, after) = (without_framework(before), without_framework(after));
        let (had, has) = (before.len(), after.len());
        let wrong = if had + has == 0 { BTreeSet::new() } else { all(schema, after) };
        if wrong.is_empty() {
            return Ok(());
        }
        // When a scope gets its first key, the whole scope must be valid.
        let known = if had == 0 { BTreeSet::new() } else { all(schema, before) };
        let is_set =
            |name: &String| write.changes().any(|(of, key, value)| of == scope && key == name && value.is_some());
        let is_worse = |violation: &Violation| match violation.counts {
            Some(MemberCount::TooMany) if violation.path.is_empty() => has > had,
            Some(MemberCount::TooFew) if violation.path.is_empty() => has < had,
            _ => violation.path.first().is_some_and(is_set),
        };
        let refused = wrong.into_iter().filter(|violation| is_worse(violation) || !known.contains(violation));
        // An error about a key is reported first, because it is more specific than one about a whole scope.
        match refused.min_by_key(|violation| violation.path.is_empty()) {
            Some(violation) => Err(self.refused_in(scope, violation)),
            None => Ok(()),
        }
    }

    /// Returns the error for a violation of a scope's schema. The first name of its path is the key.
    fn refused_in(&self, scope: Scope, mut violation: Violation) -> Error {
        if violation.path.is_empty() {
            return self.refused(&format!("the {}'s state", scope.as_str()), &violation);
        }
        let name = violation.path.remove(0);
        self.refused(&format!("'{}'", scope.key(&name)), &violation)
    }

    fn refused(&self, what: &str, violation: &Violation) -> Error {
        Error::invalid(format!("{what} breaks version {} of the state's schema{violation}", self.version))
    }
}

impl StateCheck for StateSchema {
    fn needs_scope(&self, scope: Scope, name: &str) -> bool {
        self.scope_of(scope, name).is_some_and(|schema| !schema.is_of_single_keys())
    }

    fn check(&self, write: &CheckedWrite<'_>) -> Result<()> {
        write.changes().try_for_each(|(scope, name, value)| self.check_value(scope, name, value))?;
        self.scopes.iter().try_for_each(|(scope, schema)| {
            match write.changes().any(|(of, name, _)| of == *scope && self.needs_scope(of, name)) {
                true => self.check_scope(*scope, schema, write),
                false => Ok(()),
            }
        })
    }
}

/// Returns the first error.
fn first(schema: &Compiled, value: &Value) -> Option<Violation> {
    // This does not collect all errors, because usually there is no error.
    let error = schema.validator().validate(value).err()?;
    violations(&error).into_iter().next()
}

/// Returns all errors.
fn all(schema: &Compiled, state: Map<String, Value>) -> BTreeSet<Violation> {
    schema.validator().iter_errors(&Value::Object(state)).flat_map(|error| violations(&error)).collect()
}

fn without_framework(state: Map<String, Value>) -> Map<String, Value> {
    state.into_iter().filter(|(name, _)| !is_of_framework(name)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::schema::{StateSchema, WithStateSchema};
    use scratchbook_core::event::Event;
    use scratchbook_core::memory::InMemorySessionService;
    use scratchbook_core::session::{CreateSessionConfig, SessionService};
    use scratchbook_core::state::{Scope, StateDelta};

    #[tokio::test]
    async fn what_was_wrong_before_excuses_no_key_that_is_set() {
        let old = json!({"id": 1, "OLD": 1, "cart": {"a": 1, "b": 1, "c": 1}, "few": {}});
        let sessions = InMemorySessionService::new();
        let config = CreateSessionConfig::default().with_state(old);
        let session = sessions.create_session("shop", "alice", config).await.unwrap();
        let scope = json!({
            "required": ["id"],
            "propertyNames": {"pattern": "^[a-z]+$"},
            "properties": {"cart": {"maxProperties": 2}, "few": {"minProperties": 1}},
        });
        let schema = StateSchema::new(2).with_scope(Scope::Session, scope).unwrap();
        let held = WithStateSchema::new(sessions).with_app("shop", schema);
        let set = async |state: Value| {
            let event = Event::new("agent").with_state_delta(StateDelta::try_from(state).unwrap());
            held.append(session.key(), event, Default::default()).await.map(drop)
        };
        set(json!({"fine": 1})).await.unwrap();
        for (wrong, key) in [
            (json!({"BAD": 1}), "'BAD'"),
            (json!({"OLD": 2}), "'OLD'"),
            (json!({"cart": {"a": 1, "b": 1, "c": 1, "d": 1}}), "'cart'"),
            (json!({"few": {}}), "'few'"),
        ] {
            let error = set(wrong).await.unwrap_err().to_string();
            assert!(error.contains(key) && error.contains("version 2"), "{error}");
        }
        set(json!({"cart": {"a": 1}, "few": {"a": 1}})).await.unwrap();
    }
}
