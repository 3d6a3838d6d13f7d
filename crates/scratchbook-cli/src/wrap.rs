//! Wraps text between words to the width of the terminal: lines, cells of tables, and answers as they are streamed.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

/// Wraps a line to a width. The following lines are indented a little more than the first. A word that is too long is
/// not broken, so that it can be copied.
pub(crate) fn wrap(line: &str, width: usize) -> Cow<'_, str> {
    if columns(line) <= width {
        return Cow::Borrowed(line);
    }
    let start = blank_start(line);
    let margin = columns(&line[..start]);
    let indent = " ".repeat((margin + 2).min(width / 2));
    let mut wrapped = line[..start].to_owned();
    let mut at = margin;
    // The blanks between the last word and the next word.
    let mut blanks = String::new();
    let mut first = true;
    for word in line[start..].split(' ') {
        let long = columns(word);
        if !first && at + blanks.len() + 1 + long > width && long > 0 {
            wrapped.push('\n');
            wrapped.push_str(&indent);
            at = indent.len();
            blanks.clear();
        } else if !first {
            blanks.push(' ');
        }
        first = false;
        if !word.is_empty() {
            wrapped.push_str(&blanks);
            wrapped.push_str(word);
            at += blanks.len() + long;
            blanks.clear();
        }
    }
    Cow::Owned(wrapped)
}

/// Returns the position of the first word, after blanks and styles.
fn blank_start(line: &str) -> usize {
    let mut in_style = false;
    line.find(|c| match c {
        '\u{1b}' => {
            in_style = true;
            false
        }
        'm' if in_style => {
            in_style = false;
            false
        }
        c => !in_style && c != ' ',
    })
    .unwrap_or(line.len())
}

/// Returns the number of columns that a text takes up. Styles take up no columns.
pub(crate) fn columns(text: &str) -> usize {
    let mut chars = text.chars();
    let mut columns = 0;
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // This is a style. Escapes in other texts were made visible before.
            chars.by_ref().find(|c| *c == 'm');
        } else {
            columns += c.width().unwrap_or(0);
        }
    }
    columns
}

/// Cuts a text into pieces of at most this many columns, between words if possible.
pub(crate) fn pieces(text: &str, width: usize) -> Vec<String> {
    let (mut pieces, mut piece, mut at) = (Vec::new(), String::new(), 0);
    for word in text.split_inclusive(' ') {
        let fits = at + columns(word.trim_end()) <= width;
        if !fits && at > 0 {
            pieces.push(std::mem::take(&mut piece).trim_end().to_owned());
            at = 0;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if at + wide > width && c != ' ' && at > 0 {
                pieces.push(std::mem::take(&mut piece));
                at = 0;
            }
            piece.push(c);
            at += wide;
        }
    }
    pieces.push(piece.trim_end().to_owned());
    pieces
}

/// Wraps a text that arrives in parts. A word is held back until it is complete.
#[derive(Debug, Default)]
pub(crate) struct StreamWrap {
    /// The column at which the next word begins.
    at: usize,
    word: String,
    /// Whether the text is in a block of code, which is not wrapped.
    in_code: bool,
}

impl StreamWrap {
    /// Adds a part, and returns the text that can be printed. Without a width, nothing is wrapped or held back.
    pub(crate) fn push(&mut self, part: &str, width: Option<usize>) -> String {
        let Some(width) = width else { return part.to_owned() };
        let mut ready = String::new();
        for c in part.chars() {
            match c {
                '\n' => {
                    self.complete(width, &mut ready);
                    ready.push('\n');
                    self.at = 0;
                }
                ' ' | '\t' => {
                    self.complete(width, &mut ready);
                    // A blank at the end of a line is left out.
                    if self.at < width || self.in_code {
                        ready.push(c);
                        self.at += if c == '\t' { 8 - self.at % 8 } else { 1 };
                    }
                }
                // Scripts with wide characters have no blanks between words.
                c if c.width().unwrap_or(0) > 1 => {
                    self.complete(width, &mut ready);
                    self.word.push(c);
                    self.complete(width, &mut ready);
                }
                c => self.word.push(c),
            }
        }
        ready
    }

    /// Returns the text that is still held back at the end.
    pub(crate) fn finish(&mut self, width: Option<usize>) -> String {
        let mut ready = String::new();
        self.complete(width.unwrap_or(usize::MAX), &mut ready);
        (self.at, self.in_code) = (0, false);
        ready
    }

    fn complete(&mut self, width: usize, ready: &mut String) {
        if self.at == 0 && self.word.starts_with("```") {
            self.in_code = !self.in_code;
        }
        let long = columns(&self.word);
        if self.at > 0 && self.at + long > width && long > 0 && !self.in_code {
            ready.push('\n');
            self.at = 0;
        }
        ready.push_str(&self.word);
        self.word.clear();
        self.at += long;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_break_between_words_and_within_long_ones() {
        assert_eq!(pieces("one two three", 8), ["one two", "three"]);
        assert_eq!(pieces("0123456789 ab", 4), ["0123", "4567", "89", "ab"]);
        assert_eq!(pieces("漢字漢", 4), ["漢字", "漢"]);
        assert_eq!(pieces("", 4), [""]);
    }

    #[test]
    fn a_streamed_text_is_wrapped_by_words_however_it_is_cut() {
        let text = "Once upon a time there was a fox, and a hen.\n\n  It was fast.";
        let wrapped = "Once upon a time \nthere was a fox, \nand a hen.\n\n  It was fast.";
        for size in 1..text.len() {
            let (mut wrap, mut shown) = (StreamWrap::default(), String::new());
            for part in text.as_bytes().chunks(size) {
                shown += &wrap.push(std::str::from_utf8(part).unwrap(), Some(17));
            }
            shown += &wrap.finish(Some(17));
            assert_eq!(shown, wrapped, "{size}");
        }
        assert_eq!(StreamWrap::default().push(text, None), text);
    }

    #[test]
    fn code_is_not_wrapped_and_scripts_without_blanks_are() {
        let wrapped = |text: &str| {
            let mut wrap = StreamWrap::default();
            wrap.push(text, Some(8)) + &wrap.finish(Some(8))
        };
        let code = "```\nlet a = b + c;\n```\n";
        assert_eq!(wrapped(code), code);
        assert_eq!(wrapped("漢字漢字漢字"), "漢字漢字\n漢字");
        assert_eq!(wrapped("a 0123456789"), "a \n0123456789", "a long word stays whole");
    }

    #[test]
    fn lines_break_between_words_only() {
        assert_eq!(wrap("    one two three", 80), "    one two three");
        assert_eq!(wrap("    one two  three", 14), "    one two\n      three");
        assert_eq!(wrap("one  two three", 9), "one  two\n  three");
        assert_eq!(wrap("a 0123456789abcdef b", 8), "a\n  0123456789abcdef\n  b");
        assert_eq!(wrap("", 0), "");
    }

    #[test]
    fn styles_take_no_room_and_wide_characters_two_columns() {
        let styled = "\u{1b}[1mone\u{1b}[0m two";
        assert_eq!(wrap(styled, 7), styled);
        assert_eq!(wrap("\u{1b}[2m    one two\u{1b}[0m", 8), "\u{1b}[2m    one\n    two\u{1b}[0m");
        assert_eq!(wrap("\u{1b}[2m    one two three\u{1b}[0m", 14), "\u{1b}[2m    one two\n      three\u{1b}[0m");
        assert_eq!(wrap("漢字 漢字", 8), "漢字\n  漢字");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let words = "state  session  cart_items = [\"iPhone 15\",\"AirPods Pro\"], cart_total = 1299.98, n = 1";
        for width in 24..100 {
            let wrapped = wrap(words, width);
            assert!(wrapped.lines().all(|line| columns(line) <= width), "{width}:\n{wrapped}");
            let unwrapped: Vec<_> = wrapped.split_whitespace().collect();
            assert_eq!(unwrapped, words.split_whitespace().collect::<Vec<_>>());
        }
    }
}
