//! JSON as Python's `json.dumps` writes it: a space after each comma and colon, and only ASCII.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// # Errors
///
/// The errors of serializing the value.
pub(super) fn dumps(value: &impl Serialize) -> serde_json::Result<String> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, Python))?;
    // The output is ASCII.
    Ok(String::from_utf8_lossy(&out).into_owned())
}

struct Python;

impl Formatter for Python {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for c in fragment.chars() {
            if matches!(c, ' '..='~') {
                writer.write_all(&[c as u8])?;
            } else {
                c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(writer, "\\u{unit:04x}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_what_python_writes() {
        let value = json!({"a": [1, 2.5, null], "é": "😀 \"\\\n\u{7f}\u{1}", "b": {}});
        let python = r#"{"a": [1, 2.5, null], "\u00e9": "\ud83d\ude00 \"\\\n\u007f\u0001", "b": {}}"#;
        assert_eq!(dumps(&value).unwrap(), python);
    }
}
