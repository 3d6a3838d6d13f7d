//! Draws operations per second, by workload and system, on each store.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::palette::{INK, Palette, SOFT};
use super::{Area, LETTERS, decades, left, page, right, short, store_name, text_of};
use crate::Result;
use crate::summary::{CellKey, Summary};

/// The rows of the plot from the top: workload, size, number of tasks, label.
const ROWS: [(&str, u64, usize, &str); 10] = [
    ("create", 2, 1, "create a session"),
    ("create", 2, 16, "create, 16 tasks"),
    ("append", 10, 1, "append"),
    ("append", 10, 16, "append, 16 tasks"),
    ("append", 10, 64, "append, 64 tasks"),
    ("get", 1_000, 1, "get 1,000 events"),
    ("get_json", 1_000, 1, "get 1,000 events, JSON"),
    ("get_recent", 10_000, 1, "last 10 of 10,000"),
    ("turn", 100, 1, "turn of an agent"),
    ("http_patch", 10, 16, "HTTP PATCH, 16 conn."),
];
const STORES: [&str; 3] = ["memory", "sqlite", "postgres"];
const ROW: u32 = 30;
/// The room above the rows, for the name of the store.
const TOP: u32 = 36;
/// The room below the rows, for the axis.
const BOTTOM: u32 = 40;
/// The width of the labels at the left.
const LABELS: i32 = 190;

pub(super) fn draw(summary: &Summary, palette: &Palette) -> Result<String> {
    let title = "Operations in a second (logarithmic; further right is faster)";
    page(title, &palette.names(), palette, ROW * ROWS.len() as u32 + TOP + BOTTOM, |area| {
        let (labels, rest) = area.split_horizontally(LABELS);
        let panels = rest.split_evenly((1, STORES.len()));
        for (panel, store) in panels.iter().zip(STORES) {
            draw_store(summary, palette, panel, store)?;
        }
        for (at, (_, _, _, label)) in ROWS.iter().enumerate() {
            let y = TOP as i32 + (f64::from(ROW) * (at as f64 + 0.5)) as i32;
            labels.draw(&Text::new(*label, (LABELS - 6, y), right())).map_err(text_of)?;
        }
        Ok(())
    })
}

fn draw_store(summary: &Summary, palette: &Palette, panel: &Area<'_>, store: &str) -> Result<()> {
    let systems = summary.systems(store);
    let mut points = Vec::new();
    for (at, (workload, size, tasks, _)) in ROWS.iter().enumerate() {
        let key = CellKey { workload: (*workload).to_owned(), size: *size, tasks: *tasks };
        for id in &systems {
            if let Some(outcome) = summary.measured(id, &key) {
                points.push((outcome.per_second, ROWS.len() as f64 - at as f64 - 0.5, palette.of(&summary.label(id))));
            }
        }
    }
    let range = decades(points.iter().map(|(x, _, _)| *x));
    // The last points are drawn on top.
    points.reverse();
    let middle = (panel.dim_in_pixel().0 / 2) as i32;
    let style = left().pos(Pos::new(HPos::Center, VPos::Center));
    panel.draw(&Text::new(store_name(store), (middle, 20), style)).map_err(text_of)?;
    let mut chart = ChartBuilder::on(panel)
        .margin_top(TOP)
        .margin_bottom(10)
        .margin_left(10)
        .margin_right(20)
        .x_label_area_size(BOTTOM - 10)
        .build_cartesian_2d(range.log_scale(), 0.0..ROWS.len() as f64)
        .map_err(text_of)?;
    chart
        .configure_mesh()
        .disable_y_axis()
        .x_labels(5)
        .y_labels(ROWS.len())
        .x_label_formatter(&|x| short(*x))
        .label_style(("sans-serif", LETTERS - 1).into_font().color(&INK))
        .axis_style(SOFT)
        .bold_line_style(SOFT)
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(text_of)?;
    let circles = points.iter().map(|(x, y, colour)| Circle::new((*x, *y), 5, colour.filled()));
    chart.draw_series(circles).map_err(text_of)?;
    Ok(())
}
