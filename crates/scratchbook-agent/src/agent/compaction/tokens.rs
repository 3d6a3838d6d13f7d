//! The length of a request in tokens: the model's count, or an estimate by ADK's rule.

use std::io;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use scratchbook_core::content::Content;
use scratchbook_core::event::Event;

/// Returns the model's count of the prompt tokens in the last request since the last summary. Only requests of `agent`
/// count, if it is given. The events come latest first.
pub(super) fn counted<'a>(live: impl Iterator<Item = &'a Arc<Event>>, agent: Option<&str>) -> Option<u64> {
    // A count from before a summary belongs to a different request.
    let since = live.filter(|event| event.isolation_scope.is_none());
    let mut since = since.take_while(|event| event.actions.compaction.is_none());
    since.find_map(|event| {
        let usage = event.usage_metadata.as_ref().filter(|_| agent.is_none_or(|agent| event.author == agent));
        usage?.get("promptTokenCount")?.as_u64()
    })
}

/// Estimates the tokens of contents, at four characters each.
pub(in crate::agent) fn estimated<'a>(contents: impl Iterator<Item = &'a Content>) -> u64 {
    let characters: usize = contents
        .flat_map(Content::parts)
        .map(|part| {
            let text = part.text.as_deref().map_or(0, characters);
            let call = part
                .function_call
                .as_ref()
                .map_or(0, |call| named(call.name.as_deref(), call.args.as_ref().filter(|args| !args.is_empty())));
            let response = part.function_response.as_ref().map_or(0, |response| {
                named(response.name.as_deref(), response.response.as_ref().filter(|response| !response.is_empty()))
            });
            text + call + response
        })
        .sum();
    characters as u64 / 4
}

fn named(name: Option<&str>, values: Option<&serde_json::Map<String, Value>>) -> usize {
    name.map_or(0, characters) + values.map_or(0, of_map)
}

fn characters(text: &str) -> usize {
    text.chars().count()
}

/// Returns the length of JSON as Python writes it: with a space after each comma and colon, and in ASCII only.
fn of_value(value: &Value) -> usize {
    match value {
        Value::Null => 4,
        Value::Bool(value) => {
            if *value {
                4
            } else {
                5
            }
        }
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => of_text(text),
        Value::Array(values) => 2 + separators(values.len()) + values.iter().map(of_value).sum::<usize>(),
        Value::Object(map) => of_map(map),
    }
}

fn of_map(map: &serde_json::Map<String, Value>) -> usize {
    2 + separators(map.len()) + map.iter().map(|(name, value)| of_text(name) + 2 + of_value(value)).sum::<usize>()
}

fn separators(count: usize) -> usize {
    2 * count.saturating_sub(1)
}

fn of_text(text: &str) -> usize {
    let escaped = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        ' '..='\u{7e}' => 1,
        c => 6 * c.len_utf16(),
    };
    2 + text.chars().map(escaped).sum::<usize>()
}

/// Returns how many characters contents have in a request.
pub(super) fn size<'a>(contents: impl Iterator<Item = &'a Content>) -> usize {
    let mut counter = Characters(0);
    for content in contents {
        // Counting does not fail.
        let _ = content.serialize(&mut serde_json::Serializer::new(&mut counter));
    }
    counter.0
}

struct Characters(usize);

impl io::Write for Characters {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.iter().filter(|byte| (**byte as i8) >= -64).count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_as_long_as_in_python() {
        // The lengths are those of `len(json.dumps(value))` in Python 3.11.
        for (value, length) in [
            (json!({}), 2),
            (json!({"a": [1, 2.5, true, false, null], "b": {"c": "x"}}), 51),
            (json!({"text": "a\"b\\c\n\u{1}\u{7f}é😀"}), 51),
        ] {
            assert_eq!(of_value(&value), length, "{value}");
        }
    }

    #[test]
    fn a_size_is_in_characters() {
        let contents = [Content::user("é😀")];
        let text = serde_json::to_string(&contents[0]).unwrap();
        assert_eq!(size(contents.iter()), text.chars().count());
    }
}
