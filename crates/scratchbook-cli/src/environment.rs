//! Global options from the environment. An empty variable counts as not set.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use scratchbook::{Error, Result};

use crate::args::{Plain, database_uri};

pub(crate) const DATABASE: &str = "SCRATCHBOOK_DATABASE";
#[cfg_attr(not(feature = "serve"), expect(dead_code, reason = "a variable of the server"))]
pub(crate) const DEADLINE: &str = "SCRATCHBOOK_DEADLINE";
pub(crate) const KEYRING: &str = "SCRATCHBOOK_KEYRING";
pub(crate) const PLAIN_VALUES: &str = "SCRATCHBOOK_PLAIN_VALUES";

pub(crate) fn database() -> Result<Option<String>> {
    let Some(value) = variable(DATABASE) else { return Ok(None) };
    let text = value.into_string().map_err(|_| {
        let message = format!("{DATABASE} is not UTF-8; name a database as sqlite://PATH");
        Error::invalid(message)
    })?;
    let Ok(uri) = database_uri(&text);
    Ok(Some(uri))
}

pub(crate) fn keyring() -> Option<PathBuf> {
    variable(KEYRING).map(PathBuf::from)
}

pub(crate) fn plain_values() -> Result<Option<Plain>> {
    let Some(value) = variable(PLAIN_VALUES) else { return Ok(None) };
    let value = value.to_string_lossy();
    Plain::from_str(&value, false).map(Some).map_err(|_| {
        let message = format!("{PLAIN_VALUES}={value}; it is 'read' or 'refused'");
        Error::invalid(message)
    })
}

fn variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
