//! Values, times and sizes as text. Writing a text stops when it has reached its maximum size, so a large value is
//! never written as a whole.

use std::borrow::Cow;
use std::io::{self, Write};

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;
use serde_json::Value;

/// A text that may have been cut.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cut {
    pub(super) text: String,
    pub(super) is_whole: bool,
}

/// Writes a value on one line.
pub(super) fn line(value: &Value, most: usize) -> Cut {
    let mut room = BoundedWriter::new(most);
    let is_whole = serde_json::to_writer(&mut room, value).is_ok();
    room.cut(is_whole)
}

/// Writes a value on several lines. Text is shown as it is, without quotes.
pub(super) fn block(value: &Value, most: usize) -> Cut {
    if let Value::String(text) = value {
        return text_of(text, most);
    }
    let mut room = BoundedWriter::new(most);
    let is_whole = value.serialize(&mut serde_json::Serializer::pretty(&mut room)).is_ok();
    room.cut(is_whole)
}

/// Returns JSON on several lines, or `None` if it would have more than `most` bytes.
pub(super) fn pretty(value: &Value, most: usize) -> Option<String> {
    let mut room = BoundedWriter::new(most);
    value.serialize(&mut serde_json::Serializer::pretty(&mut room)).ok()?;
    String::from_utf8(room.bytes).ok()
}

/// Returns the beginning of a text.
pub(super) fn text_of(text: &str, most: usize) -> Cut {
    let end = text.floor_char_boundary(most.min(text.len()));
    let shown = text.get(..end).unwrap_or_default();
    Cut { text: visible(shown).into_owned(), is_whole: end == text.len() }
}

/// Returns text in which invisible characters, and characters that change the text's direction, are written as escapes.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        if is_unseen(char) {
            shown.push_str(&format!("\\u{{{:x}}}", u32::from(char)));
        } else {
            shown.push(char);
        }
    }
    Cow::Owned(shown)
}

/// Returns JSON for editing, in which invisible characters are written as escapes.
pub(super) fn as_escapes(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for char in json.chars() {
        if is_unseen(char) {
            shown.push_str(&format!("\\u{:04x}", u32::from(char)));
        } else {
            shown.push(char);
        }
    }
    shown
}

fn is_unseen(char: char) -> bool {
    let turns = matches!(char, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || char == '\u{feff}' || (char.is_control() && !matches!(char, '\n' | '\t'))
}

/// A writer that accepts a limited number of bytes and then fails, so that a large value is not written to its end.
struct BoundedWriter {
    bytes: Vec<u8>,
    most: usize,
}

impl BoundedWriter {
    fn new(most: usize) -> Self {
        Self { bytes: Vec::with_capacity(most.min(256)), most }
    }

    fn cut(self, is_whole: bool) -> Cut {
        let text = match String::from_utf8(self.bytes) {
            Ok(text) => text,
            // The text was cut within a character.
            Err(cut) => {
                let end = cut.utf8_error().valid_up_to();
                let mut bytes = cut.into_bytes();
                bytes.truncate(end);
                String::from_utf8(bytes).unwrap_or_default()
            }
        };
        Cut { text: visible(&text).into_owned(), is_whole }
    }
}

impl Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.most - self.bytes.len();
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(room);
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns how long ago a time was, given in seconds since 1970. The exact time is in a tooltip and in an attribute for
/// scripts.
pub(super) fn ago(seconds: f64, now: f64) -> Markup {
    let passed = now - seconds;
    let text = match passed {
        passed if passed < -60.0 => short(seconds),
        passed if passed < 60.0 => "just now".to_owned(),
        passed if passed < 3600.0 => format!("{:.0} min ago", (passed / 60.0).floor()),
        passed if passed < 86400.0 => format!("{:.0} h ago", (passed / 3600.0).floor()),
        passed if passed < 30.0 * 86400.0 => format!("{:.0} d ago", (passed / 86400.0).floor()),
        _ => short(seconds),
    };
    html! { time datetime=(full(seconds)) title=(full(seconds)) { (text) } }
}

/// Returns a time of day, with the date in a tooltip.
pub(super) fn clock(seconds: f64) -> Markup {
    html! { time datetime=(full(seconds)) title=(full(seconds)) { (formatted(seconds, "%H:%M:%S")) } }
}

fn short(seconds: f64) -> String {
    formatted(seconds, "%Y-%m-%d")
}

fn full(seconds: f64) -> String {
    formatted(seconds, "%Y-%m-%dT%H:%M:%SZ")
}

/// Returns the exact time as text.
pub(super) fn moment(seconds: f64) -> String {
    formatted(seconds, "%Y-%m-%d %H:%M:%S UTC")
}

fn formatted(seconds: f64, form: &str) -> String {
    let time = Timestamp::from_millisecond((seconds * 1000.0) as i64);
    time.map_or_else(|_| "?".to_owned(), |time| time.strftime(form).to_string())
}

/// Returns the text for how long something took.
pub(super) fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.0005 => "0 ms".to_owned(),
        seconds if seconds < 0.9995 => format!("{:.0} ms", seconds * 1000.0),
        seconds if seconds < 59.95 => format!("{seconds:.1} s"),
        seconds if seconds < 3600.0 => format!("{:.0} min {:.0} s", (seconds / 60.0).floor(), seconds % 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

/// Returns the text for a size in bytes.
pub(super) fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        bytes if bytes < 1000.0 => format!("{bytes:.0} B"),
        bytes if bytes < 1e6 => format!("{:.1} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.1} GB", bytes / 1e9),
    }
}

/// Returns a count with the name of the things; `thing` is the singular.
pub(super) fn counted(count: usize, thing: &str) -> String {
    format!("{} {thing}{}", number(count as u64), if count == 1 { "" } else { "s" })
}

/// Returns a number with separated thousands.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_large_value_is_cut_at_a_character() {
        let value = json!({"text": "ä".repeat(1 << 20)});
        let cut = line(&value, 12);
        assert_eq!((cut.text.as_str(), cut.is_whole), ("{\"text\":\"ä", false));
        assert_eq!(block(&json!("ä".repeat(9)), 5), Cut { text: "ää".to_owned(), is_whole: false });
        assert_eq!(line(&json!([1, 2]), 100), Cut { text: "[1,2]".to_owned(), is_whole: true });
    }

    #[test]
    fn nothing_unseen_turns_text_around() {
        assert_eq!(visible("a\u{202e}b\u{7}c\n"), "a\\u{202e}b\\u{7}c\n");
        assert!(matches!(visible("plain ä\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn times_sizes_and_numbers_are_short() {
        assert_eq!(ago(100.0, 190.0).into_string().split('>').nth(1), Some("1 min ago</time"));
        assert_eq!(clock(3661.5).into_string().split('>').nth(1), Some("01:01:01</time"));
        let durations = [0.0, 0.25, 1.25, 61.0, 5400.0].map(duration);
        assert_eq!(durations, ["0 ms", "250 ms", "1.2 s", "1 min 1 s", "1.5 h"]);
        assert_eq!([999, 1500, 2_500_000].map(size), ["999 B", "1.5 kB", "2.5 MB"]);
        assert_eq!([7, 1000, 1_234_567].map(number), ["7", "1,000", "1,234,567"]);
        assert_eq!([0, 1, 2000].map(|count| counted(count, "key")), ["0 keys", "1 key", "2,000 keys"]);
    }
}
