//! Which systems were measured, and what could not be run.

use crate::markdown::{header, row};
use crate::summary::Summary;
use crate::systems::SystemId;

/// Returns what was measured, with versions and configurations.
pub(crate) fn systems(summary: &Summary) -> String {
    let mut text = header(["system", "version", "store", "configuration"].map(str::to_owned).into_iter());
    for hello in &summary.hellos {
        let id = SystemId::new(&hello.system, hello.service.as_deref(), &hello.store);
        let configuration = hello.configuration.replace('|', "\\|");
        row(&mut text, [id.name(), hello.version.clone(), hello.store.clone(), configuration].into_iter());
    }
    text
}

/// Returns what could not be run: systems, and the workloads of systems with one reason together.
pub(crate) fn missing(summary: &Summary) -> String {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (system, why) in &summary.unavailable {
        lines.push((format!("{system}: {why}"), Vec::new()));
    }
    // That a bare database has no such workload says nothing.
    for (id, key, why) in summary.missing().into_iter().filter(|(id, _, _)| id.system != "limit") {
        let line = format!("{} on {}: {why}", id.name(), id.store);
        let cell = format!("{}, {}", key.workload, key.size_in_words());
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, cells)) => cells.push(cell),
            None => lines.push((line, vec![cell])),
        }
    }
    if lines.is_empty() {
        return "Everything was run.\n".to_owned();
    }
    let shown = |(line, cells): &(String, Vec<String>)| match cells.as_slice() {
        [] => format!("- {line}\n"),
        cells => format!("- {line} (`{}`)\n", cells.join("`, `")),
    };
    lines.iter().map(|line| shown(line).replace('\n', " ").trim_end().to_owned() + "\n").collect()
}
