//! Reads the JSON text of a body. Errors are worded as in Python's `json` module, which ADK's clients know.

use axum::http::StatusCode;
use scratchbook::json;
use serde_json::{Value, json};

use crate::adk::AdkError;

/// How deep a body may be nested. `serde_json` reads no deeper.
const MAX_DEPTH: usize = 127;

/// Reads the text of a body.
///
/// # Errors
///
/// 400 if the text is not UTF-8; 422 if it is not JSON, or has a number that cannot be kept exactly.
pub(super) fn read(bytes: &[u8]) -> Result<Value, AdkError> {
    let error = match json::from_slice(bytes) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let Ok(text) = std::str::from_utf8(bytes) else { return Err(unreadable()) };
    let mut walk = TextWalk { text: text.as_bytes(), at: 0, refused: None };
    let wrong = walk.document().err().or(walk.refused);
    // If the walk finds nothing wrong, the reader's own message is used.
    let wrong = wrong.unwrap_or_else(|| TextError { at: 0, what: error.to_string() });
    let at = text.get(..wrong.at).map_or(0, |before| before.chars().count());
    let problem = json!({
        "type": "json_invalid",
        "loc": ["body", at],
        "msg": "JSON decode error",
        "input": {},
        "ctx": {"error": wrong.what},
    });
    Err(AdkError::new(StatusCode::UNPROCESSABLE_ENTITY, json!([problem])))
}

/// Returns the error for a body that is not text.
pub(super) fn unreadable() -> AdkError {
    AdkError::new(StatusCode::BAD_REQUEST, json!("There was an error parsing the body"))
}

/// An error in a text, and the byte at which it occurs.
#[derive(Debug)]
struct TextError {
    at: usize,
    what: String,
}

fn wrong<T>(at: usize, what: impl Into<String>) -> Result<T, TextError> {
    Err(TextError { at, what: what.into() })
}

/// Parses a text that the reader has refused, to find the reason. The steps are in Python's order, so that messages and
/// positions are the same.
struct TextWalk<'a> {
    text: &'a [u8],
    at: usize,
    /// A value that Python accepts and this server refuses. It is reported if nothing else is wrong.
    refused: Option<TextError>,
}

impl TextWalk<'_> {
    fn document(&mut self) -> Result<(), TextError> {
        self.space();
        self.value(0)?;
        self.space();
        if self.at < self.text.len() { wrong(self.at, "Extra data") } else { Ok(()) }
    }

    fn value(&mut self, depth: usize) -> Result<(), TextError> {
        let start = self.at;
        match self.peek() {
            Some(b'{' | b'[') if depth == MAX_DEPTH => wrong(start, format!("nested deeper than {MAX_DEPTH} levels")),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ if ["null", "true", "false"].into_iter().any(|word| self.take(word)) => Ok(()),
            _ if ["NaN", "Infinity"].into_iter().any(|word| self.take(word)) => {
                self.refuse(start, "NaN and Infinity are not JSON");
                Ok(())
            }
            _ => wrong(start, "Expecting value"),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), TextError> {
        self.at += 1;
        self.space();
        if self.take("}") {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return wrong(self.at, "Expecting property name enclosed in double quotes");
            }
            self.string()?;
            self.space();
            if !self.take(":") {
                return wrong(self.at, "Expecting ':' delimiter");
            }
            self.space();
            self.value(depth)?;
            self.space();
            if self.take("}") {
                return Ok(());
            }
            if !self.take(",") {
                return wrong(self.at, "Expecting ',' delimiter");
            }
            self.space();
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), TextError> {
        self.at += 1;
        self.space();
        if self.take("]") {
            return Ok(());
        }
        loop {
            self.value(depth)?;
            self.space();
            if self.take("]") {
                return Ok(());
            }
            if !self.take(",") {
                return wrong(self.at, "Expecting ',' delimiter");
            }
            self.space();
        }
    }

    fn string(&mut self) -> Result<(), TextError> {
        let open = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                None => return wrong(open, "Unterminated string starting at"),
                Some(b'"') => break,
                Some(b'\\') => self.escape(open)?,
                Some(0..=0x1F) => return wrong(self.at, "Invalid control character at"),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        if serde_json::from_slice::<String>(self.text.get(open..self.at).unwrap_or_default()).is_err() {
            self.refuse(open, "half of a surrogate pair is no character");
        }
        Ok(())
    }

    fn escape(&mut self, open: usize) -> Result<(), TextError> {
        let start = self.at;
        self.at += 2;
        match self.text.get(start + 1) {
            None => wrong(open, "Unterminated string starting at"),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(()),
            Some(b'u') => {
                // Python requires a character after the digits.
                let digits = self.text.get(self.at..=self.at + 4);
                let digits = digits.filter(|digits| digits.iter().take(4).all(u8::is_ascii_hexdigit));
                self.at += 4;
                digits.map_or_else(|| wrong(start + 1, "Invalid \\uXXXX escape"), |_| Ok(()))
            }
            Some(_) => wrong(start, "Invalid \\escape"),
        }
    }

    fn number(&mut self) -> Result<(), TextError> {
        let start = self.at;
        self.at += usize::from(self.peek() == Some(b'-'));
        if self.take("Infinity") {
            self.refuse(start, "NaN and Infinity are not JSON");
            return Ok(());
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return wrong(start, "Expecting value"),
        }
        self.part(b".");
        self.part(b"eE");
        let number = self.text.get(start..self.at).unwrap_or_default();
        if let Err(error) = json::from_slice::<Value>(number) {
            self.refuse(start, &error.to_string());
        }
        Ok(())
    }

    /// Skips the fraction or the exponent of a number if it has a digit.
    fn part(&mut self, marks: &[u8]) {
        let start = self.at;
        if !self.peek().is_some_and(|byte| marks.contains(&byte)) {
            return;
        }
        self.at += 1;
        if !marks.contains(&b'.') && matches!(self.peek(), Some(b'+' | b'-')) {
            self.at += 1;
        }
        let digits = self.at;
        self.digits();
        if self.at == digits {
            self.at = start;
        }
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn refuse(&mut self, at: usize, what: &str) {
        self.refused.get_or_insert_with(|| TextError { at, what: what.to_owned() });
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}
