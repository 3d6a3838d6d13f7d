//! Tables and numbers in Markdown.

use std::fmt::Write as _;

/// Returns the first two lines of a table.
pub(crate) fn header(names: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    let names: Vec<_> = names.collect();
    let count = names.len();
    row(&mut text, names.into_iter());
    text.push_str(&"|---".repeat(count));
    text.push_str("|\n");
    text
}

/// Adds a row to a table.
pub(crate) fn row(text: &mut String, fields: impl Iterator<Item = String>) {
    for field in fields {
        let _ = write!(text, "| {field} ");
    }
    text.push_str("|\n");
}

/// Returns a number as it is written in tables: whole from 100 on, otherwise with one or two decimals.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => thousands(value.round()),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Returns a ratio, as it is written in tables.
pub(crate) fn ratio(value: f64) -> String {
    match value {
        value if value >= 10.0 => thousands(value.round()),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Returns a whole number with commas.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let first = digits.len() % 3;
    let mut text = digits[..first].to_owned();
    for at in (first..digits.len()).step_by(3) {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&digits[at..at + 3]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let shown = [1_234_567.0, 12_345.4, 99.94, 9.876, 0.123].map(number);
        assert_eq!(shown, ["1,234,567", "12,345", "99.9", "9.88", "0.12"]);
    }
}
