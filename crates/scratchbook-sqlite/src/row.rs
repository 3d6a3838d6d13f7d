//! Reads columns of a row.

use rusqlite::Row;
use rusqlite::types::ValueRef;
use serde::de::DeserializeOwned;

use super::error::Fallible;
use scratchbook_core::plan::sql::rows::{self, damaged};

/// Decodes JSON text that this store wrote.
pub(super) fn decode<T: DeserializeOwned>(text: ValueRef<'_>, place: impl Fn() -> String) -> Fallible<T> {
    let text = text.as_str().map_err(|e| damaged(place()).with_source(e))?;
    Ok(rows::json(text, place)?)
}

/// Returns the value of a column. An error about damaged contents names the row.
pub(super) fn named<T>(column: rusqlite::Result<T>, place: impl Fn() -> String) -> Fallible<T> {
    column.map_err(|e| match e.sqlite_error_code() {
        Some(_) => e.into(),
        None => damaged(place()).with_source(e).into(),
    })
}

/// Returns the text of a column for a message; `?` if the column has no text.
pub(super) fn lossy(row: &Row<'_>, column: usize) -> String {
    match row.get_ref(column) {
        Ok(ValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
        _ => "?".to_owned(),
    }
}

/// Returns the length of a text in bytes.
pub(super) fn text_length(row: &Row<'_>, column: usize) -> u64 {
    row.get_ref(column).ok().and_then(|text| text.as_str().ok()).map_or(0, str::len) as u64
}

/// Reads a number that is never negative.
pub(super) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

/// Returns a count as a number for LIMIT. It is never negative, because a negative LIMIT means all rows.
pub(super) fn sql_limit(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn sql_number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
