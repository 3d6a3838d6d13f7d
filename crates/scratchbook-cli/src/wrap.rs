//! Wraps lines between words to the width of the terminal.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar;

/// Wraps a line to a width. The following lines are indented a little more than the first. A word that is too long is not
/// broken, so that it can be copied.
pub(crate) fn wrap(line: &str, width: usize) -> Cow<'_, str> {
    if columns(line) <= width {
        return Cow::Borrowed(line);
    }
    let start = blank_start(line);
    let margin = columns(&line[..start]);
    let indent = " ".repeat((margin + 2).min(width / 2));
    let mut wrapped = line[..start].to_owned();
    let mut at = margin;
    // The blanks between the last word and the next one.
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

/// The position of the first word, after blanks and styles.
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

/// The number of columns that a text takes. Styles take none.
fn columns(text: &str) -> usize {
    let mut chars = text.chars();
    let mut columns = 0;
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // A style. Escapes in other texts were made visible before.
            chars.by_ref().find(|c| *c == 'm');
        } else {
            columns += c.width().unwrap_or(0);
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

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
