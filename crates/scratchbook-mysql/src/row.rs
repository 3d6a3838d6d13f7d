//! Reading columns. One that holds what is never written names its row.

use mysql_async::{Row, Value};

use scratchbook_core::error::Result;
use scratchbook_core::plan::sql::rows::damaged;

/// The columns of a row.
pub(super) struct Cells(Vec<Value>);

impl From<Row> for Cells {
    fn from(row: Row) -> Self {
        Self(row.unwrap())
    }
}

impl Cells {
    /// A text that is there.
    pub(super) fn text(&mut self, column: usize, place: impl Fn() -> String) -> Result<String> {
        self.optional_text(column, &place)?.ok_or_else(|| damaged(place()))
    }

    /// A text or NULL.
    pub(super) fn optional_text(&mut self, column: usize, place: impl Fn() -> String) -> Result<Option<String>> {
        match self.take(column) {
            Value::NULL => Ok(None),
            Value::Bytes(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| damaged(place())),
            _ => Err(damaged(place())),
        }
    }

    /// Bytes, none for NULL.
    pub(super) fn bytes(&mut self, column: usize) -> Vec<u8> {
        match self.take(column) {
            Value::Bytes(bytes) => bytes,
            _ => Vec::new(),
        }
    }

    /// An integer that is there.
    pub(super) fn integer(&self, column: usize, place: impl Fn() -> String) -> Result<i64> {
        match self.0.get(column) {
            Some(Value::Int(number)) => Ok(*number),
            Some(Value::UInt(number)) => i64::try_from(*number).map_err(|_| damaged(place())),
            _ => Err(damaged(place())),
        }
    }

    /// A float that is there.
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
