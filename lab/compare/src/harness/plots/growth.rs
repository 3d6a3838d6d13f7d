//! Draws how the cost of an operation on SQLite grows with the amount of stored data.

use plotters::prelude::*;

use super::palette::{INK, Palette, SOFT};
use super::{Area, LETTERS, decades, left, page, short, text_of};
use crate::Result;
use crate::summary::Summary;

/// The workload, the title of its panel, and what its sizes count.
const PANELS: [(&str, &str, &str); 6] = [
    ("append", "append", "events in the session"),
    ("state", "append to a state", "keys in the state"),
    ("list", "list a user's 10 sessions", "sessions in the app"),
    ("get_recent", "get the last 10 events", "events in the session"),
    ("get", "get the whole session", "events in the session"),
    ("turn", "turn of an agent", "events in the session"),
];
const STORE: &str = "sqlite";
const HEIGHT: u32 = 270;

pub(super) fn draw(summary: &Summary, palette: &Palette) -> Result<String> {
    let names: Vec<_> = summary.systems(STORE).into_iter().map(|id| summary.label(id)).collect();
    let names: Vec<_> =
        palette.names().into_iter().filter(|name| names.iter().any(|it| it.starts_with(name))).collect();
    let title = "Microseconds for one operation on SQLite, by what is stored (lower is faster; level is flat)";
    page(title, &names, palette, 2 * HEIGHT, |area| {
        for (panel, (workload, title, unit)) in area.split_evenly((2, 3)).iter().zip(PANELS) {
            draw_panel(summary, palette, panel, workload, (title, unit))?;
        }
        Ok(())
    })
}

fn draw_panel(
    summary: &Summary,
    palette: &Palette,
    panel: &Area<'_>,
    workload: &str,
    (title, unit): (&str, &str),
) -> Result<()> {
    let lines: Vec<_> = summary
        .systems(STORE)
        .into_iter()
        .map(|id| (palette.of(&summary.label(id)), summary.growth(id, (workload, 1))))
        .filter(|(_, points)| points.len() > 1)
        .collect();
    let sizes = decades(lines.iter().flat_map(|(_, points)| points).map(|(size, _)| *size));
    let costs = decades(lines.iter().flat_map(|(_, points)| points).map(|(_, cost)| *cost));
    let mut chart = ChartBuilder::on(panel)
        .margin(14)
        .caption(title, left())
        .x_label_area_size(42)
        .y_label_area_size(50)
        .build_cartesian_2d(sizes.log_scale(), costs.log_scale())
        .map_err(text_of)?;
    chart
        .configure_mesh()
        .x_labels(5)
        .y_labels(6)
        .x_desc(unit)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .label_style(("sans-serif", LETTERS - 1).into_font().color(&INK))
        .axis_desc_style(("sans-serif", LETTERS - 1).into_font().color(&INK))
        .axis_style(SOFT)
        .bold_line_style(SOFT)
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(text_of)?;
    for (colour, points) in lines.iter().rev() {
        chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2))).map_err(text_of)?;
        let circles = points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
        chart.draw_series(circles).map_err(text_of)?;
    }
    Ok(())
}
