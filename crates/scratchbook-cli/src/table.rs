//! Tables as text. Ids and keys are never broken, so that they can be copied. A table that is too wide wraps its texts.
//! If that is not enough, each row becomes a record with a line for each column.

use std::{io, iter};

use crate::output::{DIM, Output, styled};
use crate::wrap::{columns as width_of, pieces};

/// The blanks between two columns.
const GAP: usize = 2;

/// A column that wraps is at least this wide, unless its texts are shorter.
const MIN_TEXT: usize = 16;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    name: &'static str,
    wraps: bool,
}

/// Creates a column of ids, keys, times or numbers, which are never broken.
pub(crate) const fn whole(name: &'static str) -> Column {
    Column { name, wraps: false }
}

/// Creates a column of values or texts, which may be wrapped.
pub(crate) const fn text(name: &'static str) -> Column {
    Column { name, wraps: true }
}

impl Output {
    /// Prints a table. On a terminal, the table fits the width, if necessary as records. In a pipe, it is as wide as
    /// its values.
    pub(crate) fn table<const N: usize>(
        &mut self,
        columns: [Column; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> io::Result<()> {
        lines(columns, rows, self.width()).into_iter().try_for_each(|line| self.text(line))
    }
}

/// Returns the lines of a table for a terminal of this width, or for a pipe.
fn lines<const N: usize>(
    columns: [Column; N],
    rows: impl IntoIterator<Item = [String; N]>,
    width: Option<usize>,
) -> Vec<String> {
    let rows: Vec<_> = rows.into_iter().collect();
    let natural = widths(&columns, &rows);
    match width {
        None => table(&columns, &rows, &natural),
        Some(width) => match fitted(&columns, natural, width) {
            Some(widths) => table(&columns, &rows, &widths),
            None => records(&columns, &rows, width),
        },
    }
}

/// Returns the width of each column's longest text.
fn widths<const N: usize>(columns: &[Column; N], rows: &[[String; N]]) -> [usize; N] {
    let mut widths = columns.map(|column| column.name.len());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(width_of(cell));
        }
    }
    widths
}

/// Returns the widths with which the table fits; `None` if it cannot.
fn fitted<const N: usize>(columns: &[Column; N], natural: [usize; N], width: usize) -> Option<[usize; N]> {
    let mut widths = natural;
    while widths.iter().sum::<usize>() + GAP * (N - 1) > width {
        let can_shrink = widths.iter_mut().zip(columns).filter(|(width, column)| column.wraps && **width > MIN_TEXT);
        *can_shrink.map(|(width, _)| width).max()? -= 1;
    }
    Some(widths)
}

fn table<const N: usize>(columns: &[Column; N], rows: &[[String; N]], widths: &[usize; N]) -> Vec<String> {
    let header = columns.iter().zip(widths).map(|(column, width)| {
        let blanks = width - column.name.len();
        format!("{}{}", styled(DIM, column.name), " ".repeat(blanks))
    });
    let header = header.collect::<Vec<_>>().join(&" ".repeat(GAP));
    let mut lines = vec![header.trim_end().to_owned()];
    for row in rows {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| pieces(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or_default();
        lines.extend((0..height).map(|at| {
            let mut line = String::new();
            for (cell, width) in cells.iter().zip(widths) {
                let piece = cell.get(at).map_or("", String::as_str);
                line.push_str(piece);
                line.extend(iter::repeat_n(' ', width - width_of(piece) + GAP));
            }
            line.trim_end().to_owned()
        }));
    }
    lines
}

/// Returns a line for each column of each row, with a blank line between two rows. Empty cells are left out.
fn records<const N: usize>(columns: &[Column; N], rows: &[[String; N]], width: usize) -> Vec<String> {
    let margin = columns.iter().map(|column| column.name.len()).max().unwrap_or_default() + GAP;
    let mut lines = Vec::new();
    for row in rows {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        for (column, cell) in columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
            let name = format!("{}{}", styled(DIM, column.name), " ".repeat(margin - column.name.len()));
            let cell =
                if column.wraps { pieces(cell, width.saturating_sub(margin).max(1)) } else { vec![cell.clone()] };
            let blank = " ".repeat(margin);
            let margins = iter::once(name).chain(iter::repeat(blank));
            lines.extend(margins.zip(cell).map(|(margin, piece)| format!("{margin}{piece}")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "019aa3b2-5d1c-7f00-8a6e-0123456789ab";
    const USER: &str = "a_customer_with_a_rather_long_name@example.com";

    /// Removes the styles from lines.
    fn plain(lines: Vec<String>) -> Vec<String> {
        lines.into_iter().map(|line| anstream::adapter::strip_str(&line).to_string()).collect()
    }

    fn sessions(width: Option<usize>) -> Vec<String> {
        let columns = [whole("USER"), whole("SESSION"), whole("UPDATED"), whole("KEYS"), text("TITLE")];
        let row = |user: &str, title: &str| {
            [user.to_owned(), ID.to_owned(), "2026-11-21T03:24:48Z".to_owned(), "12".to_owned(), title.to_owned()]
        };
        plain(lines(columns, [row(USER, "A parcel that never came to its place"), row("bob", "")], width))
    }

    #[test]
    fn ids_stay_whole_at_every_width_and_no_line_is_wider_than_it_must_be() {
        for width in 50..200 {
            let lines = sessions(Some(width));
            for whole in [ID, USER, "2026-11-21T03:24:48Z"] {
                assert!(lines.iter().any(|line| line.contains(whole)), "{width}: {lines:#?}");
            }
            let longest = lines.iter().map(|line| width_of(line)).max().unwrap();
            assert!(longest <= width.max("SESSION  ".len() + USER.len()), "{width}: {lines:#?}");
        }
    }

    #[test]
    fn a_narrow_terminal_gets_records() {
        for width in [60, 80] {
            let lines = sessions(Some(width));
            assert_eq!(lines[0], format!("USER     {USER}"));
            assert_eq!(lines[1], format!("SESSION  {ID}"));
            let bob = lines.iter().position(String::is_empty).unwrap();
            assert_eq!(lines[bob + 1], "USER     bob");
            assert_eq!(lines.last().unwrap(), "KEYS     12", "an empty title takes no line");
        }
        let short = |width| {
            let row = ["alice", "s1", "wine and bread and cheese"].map(str::to_owned);
            plain(lines([whole("USER"), whole("SESSION"), text("TITLE")], [row], Some(width)))
        };
        assert_eq!(short(60), ["USER   SESSION  TITLE", "alice  s1       wine and bread and cheese"]);
        assert_eq!(
            short(34),
            ["USER   SESSION  TITLE", "alice  s1       wine and bread and", "                cheese"]
        );
        assert_eq!(
            short(20),
            ["USER     alice", "SESSION  s1", "TITLE    wine and", "         bread and", "         cheese"]
        );
    }

    #[test]
    fn a_table_is_as_wide_as_its_values_in_a_pipe() {
        let lines = sessions(None);
        assert_eq!(lines.len(), 3);
        assert!(lines[1].ends_with("12    A parcel that never came to its place"), "{lines:#?}");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let rows = [["漢字", "1"], ["ab", "2"]].map(|row| row.map(str::to_owned));
        assert_eq!(plain(lines([whole("KEY"), text("V")], rows, Some(80))), ["KEY   V", "漢字  1", "ab    2"]);
    }
}
