//! Processor time and resident memory, as Linux counts them. Other systems have no such numbers.

use std::fs;

/// How many ticks there are in a second. The number is the same on every Linux that we know.
const TICKS: f64 = 100.0;

/// Returns the processor time of this process and of another one, in seconds.
pub(crate) fn with(other: Option<u32>) -> Option<f64> {
    let own = of(std::process::id())?;
    Some(own + other.and_then(of).unwrap_or(0.0))
}

fn of(id: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is a name in parentheses, which may contain spaces.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

/// Returns the resident memory of this process, in bytes.
pub(crate) fn resident_bytes() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
}
