//! Parameters and columns. If a column contains a value that we never write, the error names its row.

use mysql_async::{Row, Value};

use scratchbook_core::error::Result;
use scratchbook_core::plan::sql::rows::damaged;
use scratchbook_core::session::SessionKey;

/// The columns of a row.
pub(super) struct RowCells(Vec<Value>);

impl From<Row> for RowCells {
    fn from(row: Row) -> Self {
        Self(row.unwrap())
    }
}

impl RowCells {
    /// Reads a text that is not NULL.
    pub(super) fn text(&mut self, column: usize, place: impl Fn() -> String) -> Result<String> {
        self.optional_text(column, &place)?.ok_or_else(|| damaged(place()))
    }

    /// Reads a text or NULL.
    pub(super) fn optional_text(&mut self, column: usize, place: impl Fn() -> String) -> Result<Option<String>> {
        match self.take(column) {
            Value::NULL => Ok(None),
            Value::Bytes(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| damaged(place())),
            _ => Err(damaged(place())),
        }
    }

    /// Reads bytes; NULL is read as no bytes.
    pub(super) fn bytes(&mut self, column: usize) -> Vec<u8> {
        match self.take(column) {
            Value::Bytes(bytes) => bytes,
            _ => Vec::new(),
        }
    }

    /// Reads an integer that is not NULL.
    pub(super) fn integer(&self, column: usize, place: impl Fn() -> String) -> Result<i64> {
        match self.0.get(column) {
            Some(Value::Int(number)) => Ok(*number),
            Some(Value::UInt(number)) => i64::try_from(*number).map_err(|_| damaged(place())),
            _ => Err(damaged(place())),
        }
    }

    /// Reads an integer or NULL.
    pub(super) fn optional_integer(&self, column: usize, place: impl Fn() -> String) -> Result<Option<i64>> {
        match self.0.get(column) {
            Some(Value::NULL) => Ok(None),
            _ => self.integer(column, place).map(Some),
        }
    }

    /// Reads a float that is not NULL.
    pub(super) fn double(&self, column: usize, place: impl Fn() -> String) -> Result<f64> {
        match self.0.get(column) {
            Some(Value::Double(number)) => Ok(*number),
            _ => Err(damaged(place())),
        }
    }

    fn take(&mut self, column: usize) -> Value {
        self.0.get_mut(column).map_or(Value::NULL, |value| std::mem::replace(value, Value::NULL))
    }
}

/// Returns the address of a session as parameters.
pub(super) fn address(key: &SessionKey) -> [Value; 3] {
    [key.app_name(), key.user_id(), key.session_id()].map(Value::from)
}
