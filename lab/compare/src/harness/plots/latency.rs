//! Draws percentiles of the latency of single operations on SQLite: 50, 90 and 99.

use plotters::prelude::*;

use super::palette::{INK, Palette, SOFT};
use super::{Area, LETTERS, decades, left, page, right, short, text_of};
use crate::Result;
use crate::summary::{CellKey, Summary};

/// The workload, the size, the number of tasks and the title of each panel.
const PANELS: [(&str, u64, usize, &str); 6] = [
    ("append", 10, 1, "append"),
    ("append", 10, 16, "append, 16 tasks"),
    ("get", 1_000, 1, "get 1,000 events"),
    ("turn", 100, 1, "turn of an agent"),
    ("http_get", 10, 16, "HTTP get, 16 connections"),
    ("http_patch", 10, 16, "HTTP PATCH, 16 connections"),
];
const STORE: &str = "sqlite";
const HEIGHT: u32 = 230;
/// The width of the names at the left of a panel.
const LABELS: u32 = 256;

pub(super) fn draw(summary: &Summary, palette: &Palette) -> Result<String> {
    let title = "Milliseconds on SQLite (logarithmic): dot = half of all, middle = nine of ten, end = 99 of 100";
    page(title, &[], palette, 3 * HEIGHT, |area| {
        for (panel, (workload, size, tasks, title)) in area.split_evenly((3, 2)).iter().zip(PANELS) {
            let key = CellKey { workload: workload.to_owned(), size, tasks };
            draw_panel(summary, palette, panel, &key, title)?;
        }
        Ok(())
    })
}

fn draw_panel(summary: &Summary, palette: &Palette, panel: &Area<'_>, key: &CellKey, title: &str) -> Result<()> {
    let systems = summary.systems(STORE).into_iter().filter(|id| id.system != "limit");
    let rows: Vec<_> = systems
        .filter_map(|id| Some((summary.label(id), summary.measured(id, key)?.latencies?)))
        .map(|(name, it)| (name, [it.p50, it.p90, it.p99].map(|micros| micros / 1e3)))
        .collect();
    let range = decades(rows.iter().flat_map(|(_, times)| times).copied());
    let count = rows.len().max(1) as f64;
    let mut chart = ChartBuilder::on(panel)
        .margin(14)
        .margin_left(LABELS)
        .caption(title, left())
        .x_label_area_size(30)
        .build_cartesian_2d(range.clone().log_scale(), 0.0..count)
        .map_err(text_of)?;
    chart
        .configure_mesh()
        .disable_y_axis()
        .disable_y_mesh()
        .x_labels(5)
        .x_label_formatter(&|x| short(*x))
        .label_style(("sans-serif", LETTERS - 1).into_font().color(&INK))
        .axis_style(SOFT)
        .bold_line_style(SOFT)
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(text_of)?;
    for (at, (name, [p50, p90, p99])) in rows.iter().enumerate() {
        let (y, colour) = (count - at as f64 - 0.5, palette.of(name));
        let line = PathElement::new(vec![(*p50, y), (*p99, y)], colour.stroke_width(3));
        chart.draw_series([line]).map_err(text_of)?;
        for time in [p90, p99] {
            let mark = EmptyElement::at((*time, y)) + PathElement::new(vec![(0, -6), (0, 6)], colour.stroke_width(3));
            chart.draw_series([mark]).map_err(text_of)?;
        }
        chart.draw_series([Circle::new((*p50, y), 6, colour.filled())]).map_err(text_of)?;
        let label = EmptyElement::at((range.start, y)) + Text::new(name.clone(), (-10, 0), right());
        chart.plotting_area().draw(&label).map_err(text_of)?;
    }
    Ok(())
}
