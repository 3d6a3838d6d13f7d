//! `scratchbook sessions delete`.

use scratchbook::{ErrorKind, SessionKey};
use serde_json::json;

use super::metadata_only;
use crate::address::resolve;
use crate::args::{Address, DeleteArgs};
use crate::confirm::confirm;
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::output::{Format, Output, plural, visible};

pub(crate) async fn delete(database: &OpenDatabase, args: DeleteArgs, out: &mut Output) -> Result<(), CommandFailure> {
    // A missing session is reported but is not an error, because the result is the same.
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for (name, address) in args.addresses()? {
        match find(database, &address).await? {
            Some(key) if args.yes && !is_whole(&address, &key) => return Err(not_whole(&name, &key)),
            Some(key) => found.push(key),
            None => missing.push(match address {
                Address::Whole(key) => (key.session_id().to_owned(), format!("session {key}")),
                Address::Beginning(_, id) => (id, format!("session '{name}'")),
                Address::Last(_) => (name.clone(), format!("session '{name}'")),
            }),
        }
    }
    found.dedup();
    if !args.yes && !found.is_empty() {
        let names: String = found.iter().map(|key| format!("  {}\n", visible(&key.to_string()))).collect();
        let question = format!("{names}Delete {}, with events and state?", plural(found.len() as u64, "session"));
        confirm(&question, "deleting sessions", "deleted").await?;
    }
    for key in &found {
        database.sessions.delete_session(key).await?;
    }
    if out.format() == Format::Json {
        let deleted: Vec<_> = found.iter().map(SessionKey::session_id).collect();
        let missing: Vec<_> = missing.into_iter().map(|(id, _)| id).collect();
        return Ok(out.json(&json!({"deleted": deleted, "missing": missing}))?);
    }
    for key in found {
        out.line(format_args!("deleted {}", visible(&key.to_string())))?;
    }
    for (_, name) in missing {
        out.line(format_args!("there was no {}", visible(&name)))?;
    }
    Ok(())
}

/// Returns the session, if it exists.
async fn find(database: &OpenDatabase, address: &Address) -> Result<Option<SessionKey>, CommandFailure> {
    let key = match resolve(address, database).await {
        Ok(key) => key,
        Err(CommandFailure::Refused(error)) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let exists = database.sessions.get_session(&key, &metadata_only()).await?.is_some();
    Ok(exists.then_some(key))
}

/// Returns whether an address names a session by its whole id.
fn is_whole(address: &Address, key: &SessionKey) -> bool {
    !matches!(address, Address::Beginning(_, id) if id != key.session_id())
}

fn not_whole(name: &str, key: &SessionKey) -> CommandFailure {
    let message = format!("with --yes write whole ids: '{name}' is the beginning of {key}");
    scratchbook::Error::invalid(message).into()
}
