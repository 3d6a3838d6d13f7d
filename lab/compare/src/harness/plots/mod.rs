//! The plots, as SVG files that are light or dark as the reader's screen is.

mod growth;
mod latency;
mod palette;
mod throughput;

use std::fs;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Result;
use crate::summary::Summary;
use palette::{BACK, INK, Palette};

/// The area on which a plot is drawn.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The width of every plot.
const WIDTH: u32 = 1000;
/// The size of the letters.
const LETTERS: u32 = 13;
/// The approximate width of a letter.
const LETTER: i32 = 7;
/// The height of a line of the legend.
const LINE: i32 = 22;

/// Draws all plots into a folder.
pub(crate) fn draw(summary: &Summary, folder: &Path) -> Result<()> {
    let palette = Palette::new(summary);
    let plots: [(&str, String); 3] = [
        ("benchmarks-throughput.svg", throughput::draw(summary, &palette)?),
        ("benchmarks-growth.svg", growth::draw(summary, &palette)?),
        ("benchmarks-latency.svg", latency::draw(summary, &palette)?),
    ];
    for (name, svg) in plots {
        let path = folder.join(name);
        fs::write(&path, palette::with_dark(&svg)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Draws a page of this height: a title, a legend, and the plot below them.
fn page(
    title: &str,
    names: &[String],
    palette: &Palette,
    height: u32,
    body: impl FnOnce(&Area<'_>) -> Result<()>,
) -> Result<String> {
    let lines = legend_lines(names);
    let head = 40 + LINE * lines.len() as i32;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, height + head as u32)).into_drawing_area();
        root.fill(&BACK).map_err(text_of)?;
        let style = ("sans-serif", LETTERS + 3).into_font().color(&INK);
        root.draw(&Text::new(title.to_owned(), (20, 14), style)).map_err(text_of)?;
        for (line, names) in lines.iter().enumerate() {
            let (mut x, y) = (26, 46 + LINE * line as i32);
            for name in names {
                root.draw(&Circle::new((x, y), 5, palette.of(name).filled())).map_err(text_of)?;
                let style = left().pos(Pos::new(HPos::Left, VPos::Center));
                root.draw(&Text::new(name.clone(), (x + 10, y), style)).map_err(text_of)?;
                x += legend_width(name);
            }
        }
        let (_, rest) = root.split_vertically(head);
        body(&rest)?;
        root.present().map_err(text_of)?;
    }
    Ok(svg)
}

/// Splits the names of a legend into lines that fit.
fn legend_lines(names: &[String]) -> Vec<Vec<String>> {
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut room = 0;
    for name in names {
        let width = legend_width(name);
        if width > room {
            lines.push(Vec::new());
            room = WIDTH as i32 - 40;
        }
        room -= width;
        if let Some(line) = lines.last_mut() {
            line.push(name.clone());
        }
    }
    lines
}

fn legend_width(name: &str) -> i32 {
    LETTER * name.chars().count() as i32 + 36
}

fn left() -> TextStyle<'static> {
    ("sans-serif", LETTERS).into_font().color(&INK)
}

/// Returns the style of text that ends at its position.
fn right() -> TextStyle<'static> {
    left().pos(Pos::new(HPos::Right, VPos::Center))
}

/// Returns a number as an axis shows it.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.0} M", value / 1e6),
        value if value >= 1e3 => format!("{:.0} k", value / 1e3),
        value if value >= 1.0 => format!("{value:.0}"),
        value => format!("{value}"),
    }
}

/// Returns the powers of ten around the values.
fn decades(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let logs: Vec<_> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
    let low = logs.iter().copied().min_by(f64::total_cmp).unwrap_or(0.0).floor();
    let high = logs.iter().copied().max_by(f64::total_cmp).unwrap_or(1.0).ceil().max(low + 1.0);
    10f64.powf(low)..10f64.powf(high)
}

/// Returns the name of a store as a reader knows it.
fn store_name(store: &str) -> &str {
    match store {
        "memory" => "memory",
        "sqlite" => "SQLite",
        "postgres" => "PostgreSQL",
        other => other,
    }
}

fn text_of(error: impl std::fmt::Display) -> String {
    format!("a plot: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::ResultLine;
    use crate::summary::tests::{measured, row};

    #[test]
    fn a_legend_has_lines_that_fit() {
        let names: Vec<_> = (0..9).map(|n| format!("a system with a long name, Service{n}")).collect();
        let lines = legend_lines(&names);
        assert_eq!(lines.concat(), names);
        for line in lines {
            assert!(line.iter().map(|name| legend_width(name)).sum::<i32>() <= WIDTH as i32, "{line:?}");
        }
    }

    #[test]
    fn axes_show_short_numbers_between_powers_of_ten() {
        assert_eq!([0.1, 1.0, 1e4, 2e6].map(short), ["0.1", "1", "10 k", "2 M"]);
        assert_eq!(decades([3.0, 250.0].into_iter()), 1.0..1000.0);
        assert_eq!(decades([10.0].into_iter()), 10.0..100.0);
        assert_eq!(decades(std::iter::empty()), 1.0..10.0);
    }

    #[test]
    fn plots_of_any_results_are_drawn_for_light_and_dark_screens() {
        let lines: Vec<ResultLine> = [10, 100, 1_000, 10_000]
            .into_iter()
            .flat_map(|size| {
                ["scratchbook", "other"].map(|name| row(name, "sqlite", "append", size, measured(size, 0)))
            })
            .collect();
        for summary in [Summary::new(&lines), Summary::new(&[])] {
            let folder = tempfile::tempdir().unwrap();
            draw(&summary, folder.path()).unwrap();
            for name in ["throughput", "growth", "latency"] {
                let text = fs::read_to_string(folder.path().join(format!("benchmarks-{name}.svg"))).unwrap();
                assert!(text.contains("prefers-color-scheme: dark"), "{name}");
                assert!(text.trim_end().ends_with("</svg>"), "{name}");
            }
        }
    }
}
