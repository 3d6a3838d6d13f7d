//! Processor time, as Linux counts it.

use std::fs;

/// How many ticks there are in a second. The number is the same on every Linux that we know.
const TICKS: f64 = 100.0;

/// Returns the processor time that this process has used, in seconds.
#[must_use]
pub fn own() -> f64 {
    of(std::process::id()).map_or(0.0, |times| times.seconds)
}

/// Returns the processor time that a process and its children have used, in seconds. Children that have ended are
/// included.
#[must_use]
pub fn with_children(id: u32) -> f64 {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let children: f64 = ids.filter_map(of).filter(|times| times.parent == id).map(|times| times.seconds).sum();
    of(id).map_or(0.0, |times| times.seconds + times.of_ended_children) + children
}

struct ProcessTimes {
    parent: u32,
    seconds: f64,
    of_ended_children: f64,
}

fn of(id: u32) -> Option<ProcessTimes> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is a name in parentheses, which may contain spaces.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(ProcessTimes {
        parent: fields.get(1)?.parse().ok()?,
        seconds: (ticks(11)? + ticks(12)?) / TICKS,
        of_ended_children: (ticks(13)? + ticks(14)?) / TICKS,
    })
}
