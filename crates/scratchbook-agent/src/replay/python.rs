//! Reads values as Python writes them, such as `{'a': None}`: google-adk's text about other agents has arguments and
//! results in this form, and ours has JSON.

use serde_json::{Map, Value};

/// How deep values may be nested.
const MAX_DEPTH: usize = 64;

/// Parses a value in JSON or as Python writes it. Returns `None` if the text is neither.
pub(super) fn value(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().or_else(|| {
        let mut reader = PythonReader { rest: text };
        let value = reader.value(0)?;
        reader.rest.is_empty().then_some(value)
    })
}

/// The rest of a text.
struct PythonReader<'a> {
    rest: &'a str,
}

impl PythonReader<'_> {
    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.rest.chars().next()? {
            '{' => self
                .items('{', '}', |reader| {
                    let key = reader.string()?;
                    reader.take(": ")?;
                    Some((key, reader.value(depth + 1)?))
                })
                .map(|fields| fields.into_iter().collect::<Map<_, _>>().into()),
            '[' => self.items('[', ']', |reader| reader.value(depth + 1)).map(Value::Array),
            '\'' | '"' => self.string().map(Value::String),
            _ => self.word(),
        }
    }

    fn take(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    /// Reads items between brackets, separated by commas.
    fn items<T>(&mut self, open: char, close: char, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        self.rest = self.rest.strip_prefix(open)?;
        let mut items = Vec::new();
        while !self.rest.starts_with(close) {
            if !items.is_empty() {
                self.take(", ")?;
            }
            items.push(item(self)?);
        }
        self.rest = self.rest.strip_prefix(close)?;
        Some(items)
    }

    fn word(&mut self) -> Option<Value> {
        let end = self.rest.find([',', '}', ']']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word {
            "None" => Some(Value::Null),
            "True" => Some(true.into()),
            "False" => Some(false.into()),
            number => serde_json::from_str(number).ok().filter(Value::is_number),
        }
    }

    fn string(&mut self) -> Option<String> {
        let quote = self.rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        loop {
            match chars.next()? {
                (place, c) if c == quote => {
                    self.rest = self.rest.get(place + 1..)?;
                    return Some(text);
                }
                (_, '\\') => text.push(escaped(&mut chars)?),
                (_, c) => text.push(c),
            }
        }
    }
}

/// Reads the character that follows a backslash.
fn escaped(chars: &mut impl Iterator<Item = (usize, char)>) -> Option<char> {
    let digits = match chars.next()?.1 {
        'n' => return Some('\n'),
        'r' => return Some('\r'),
        't' => return Some('\t'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        c => return Some(c),
    };
    let code: String = chars.take(digits).map(|(_, c)| c).collect();
    u32::from_str_radix(&code, 16).ok().and_then(char::from_u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn python_and_json_are_the_same_value() {
        let python = r#"{'a': None, "it's": [True, False, -2.5, 1e+22], 'b': {}, 'text': 'a\n\'\xe9\u20ac"', 'e': []}"#;
        let expected =
            json!({"a": null, "it's": [true, false, -2.5, 1e22], "b": {}, "text": "a\n'\u{e9}\u{20ac}\"", "e": []});
        assert_eq!(value(python).unwrap(), expected);
        assert_eq!(value(&expected.to_string()).unwrap(), expected);
    }

    #[test]
    fn what_is_neither_is_no_value() {
        for text in ["", "{", "{'a'}", "['a", "hello", "{'a': b}", "[1]]", "'\\xzz'", &"[".repeat(1000)] {
            assert_eq!(value(text), None, "{text}");
        }
    }
}
