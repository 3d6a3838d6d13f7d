//! Filters in the language of AIP-160. Only conditions that are joined by AND are supported.

use std::str::Chars;

use scratchbook::{Error, Result};

/// A condition: a field, a comparison, and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The names of the field; `labels."a.b"` is two names.
    pub field: Vec<String>,
    /// How the field is compared.
    pub comparison: Comparison,
    /// What it is compared with.
    pub value: String,
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Is,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

/// Reads the conditions of a filter, which are joined by `AND` or a space.
///
/// # Errors
///
/// `InvalidArgument` names the character at which the filter is invalid or uses something unsupported.
pub fn conditions(text: &str) -> Result<Vec<Condition>> {
    let mut reader = FilterReader { rest: text.chars(), length: text.chars().count() };
    let mut conditions = Vec::new();
    loop {
        reader.skip_space();
        if reader.peek().is_none() {
            return if text.trim().is_empty() || !conditions.is_empty() {
                Ok(conditions)
            } else {
                Err(reader.wrong(""))
            };
        }
        if !conditions.is_empty() && reader.takes_word("AND") {
            reader.skip_space();
            if reader.peek().is_none() {
                return Err(reader.wrong("a condition is missing after AND"));
            }
        }
        conditions.push(reader.condition()?);
    }
}

struct FilterReader<'a> {
    rest: Chars<'a>,
    length: usize,
}

impl FilterReader<'_> {
    fn condition(&mut self) -> Result<Condition> {
        if ["OR", "NOT"].into_iter().any(|word| self.takes_word(word)) || matches!(self.peek(), Some('(' | ')' | '-')) {
            return Err(self.wrong("conditions are joined by AND alone, without OR, NOT and brackets"));
        }
        let mut field = vec![self.name()?];
        while self.takes('.') {
            field.push(self.name()?);
        }
        self.skip_space();
        let comparison = match (self.rest.next(), self.peek()) {
            (Some('='), _) => Comparison::Is,
            (Some('<'), Some('=')) => Comparison::AtMost,
            (Some('>'), Some('=')) => Comparison::AtLeast,
            (Some('<'), _) => Comparison::Below,
            (Some('>'), _) => Comparison::Above,
            _ => return Err(self.wrong("a field is compared by =, <, <=, > or >=")),
        };
        if matches!(comparison, Comparison::AtMost | Comparison::AtLeast) {
            self.rest.next();
        }
        self.skip_space();
        let value = match self.peek() {
            Some(quote @ ('"' | '\'')) => self.quoted(quote)?,
            _ => self.bare(|c| c.is_whitespace() || "()\"'=<>".contains(c))?,
        };
        if self.peek().is_some_and(|c| !c.is_whitespace()) {
            return Err(self.wrong("a value ends with a space; quote it"));
        }
        Ok(Condition { field, comparison, value })
    }

    fn name(&mut self) -> Result<String> {
        match self.peek() {
            Some(quote @ ('"' | '\'')) => self.quoted(quote),
            _ => self.bare(|c| !(c.is_alphanumeric() || matches!(c, '_' | '-'))),
        }
    }

    fn bare(&mut self, ends: impl Fn(char) -> bool) -> Result<String> {
        let mut text = String::new();
        while let Some(c) = self.peek().filter(|c| !ends(*c)) {
            text.push(c);
            self.rest.next();
        }
        if text.is_empty() { Err(self.wrong("a name or a value is missing")) } else { Ok(text) }
    }

    fn quoted(&mut self, quote: char) -> Result<String> {
        self.rest.next();
        let mut text = String::new();
        loop {
            match self.rest.next() {
                Some('\\') => match self.rest.next() {
                    Some(c @ ('\\' | '"' | '\'')) => text.push(c),
                    _ => return Err(self.wrong("a backslash stands before a quote or a backslash alone")),
                },
                Some(c) if c == quote => return Ok(text),
                Some(c) => text.push(c),
                None => return Err(self.wrong("a quote is not closed")),
            }
        }
    }

    fn takes(&mut self, wanted: char) -> bool {
        let takes = self.peek() == Some(wanted);
        if takes {
            self.rest.next();
        }
        takes
    }

    /// Consumes a word that is followed by a space, a bracket or the end. Returns whether the word was there.
    fn takes_word(&mut self, word: &str) -> bool {
        let Some(after) = self.rest.as_str().strip_prefix(word) else { return false };
        let takes = after.chars().next().is_none_or(|c| c.is_whitespace() || c == '(');
        if takes {
            self.rest = after.chars();
        }
        takes
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.rest.next();
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn wrong(&self, what: &str) -> Error {
        let at = self.length - self.rest.clone().count();
        Error::invalid(format!("the filter cannot be read at character {at}: {what}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, Comparison, String)> {
        let conditions = conditions(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        conditions.into_iter().map(|c| (c.field.join("/"), c.comparison, c.value)).collect()
    }

    fn is(field: &str, value: &str) -> (String, Comparison, String) {
        (field.to_owned(), Comparison::Is, value.to_owned())
    }

    #[test]
    fn conditions_are_joined_and_values_quoted() {
        assert_eq!(read(r#"user_id="u1""#), [is("user_id", "u1")]);
        assert_eq!(read(r#"user_id = "u\"1\\ AND x=\"y""#), [is("user_id", "u\"1\\ AND x=\"y")]);
        assert_eq!(
            read(r#" displayName='it\'s'  AND labels.env=test labels."a.b" = "" "#),
            [is("displayName", "it's"), is("labels/env", "test"), is("labels/a.b", "")]
        );
        assert_eq!(read("AND_more=1 AND ANDx=2"), [is("AND_more", "1"), is("ANDx", "2")]);
        assert_eq!(read(""), []);
        let since = read(r#"timestamp>="2026-01-01T00:00:00+00:00" AND timestamp < "x""#);
        assert_eq!((since[0].1, since[1].1), (Comparison::AtLeast, Comparison::Below));
        assert_eq!((read("a<=1")[0].1, read("a>1")[0].1), (Comparison::AtMost, Comparison::Above));
    }

    #[test]
    fn what_is_no_such_filter_is_refused() {
        for bad in [
            "user_id",
            "user_id=",
            "=1",
            "a==1",
            "a!=1",
            "a:1",
            "a=1 AND",
            "AND a=1",
            "a=1 OR b=2",
            "NOT a=1",
            "-a=1",
            "(a=1)",
            "a=1)",
            "a=\"1",
            "a=\"1\"b=2",
            "a=\"\\n\"",
            "a..b=1",
            "a.=1",
            "a=1 AND AND b=2",
            "\u{0}",
            "\"",
        ] {
            assert!(conditions(bad).is_err(), "{bad}: {:?}", conditions(bad));
        }
    }
}
