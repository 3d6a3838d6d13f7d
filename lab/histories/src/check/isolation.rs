//! Checks that the transactions have an order that agrees with real time and explains every read.
//!
//! The crate `adya` finds the cycles in the order of reads and writes; `tests.rs` shows what it finds.

use adya::{History, Opts, Report, Valid, Workload};

use crate::history::{HistoryEntry, write_lines};

/// Returns why the history is not strictly serializable.
pub(super) fn violations(entries: &[HistoryEntry]) -> Vec<String> {
    let mut lines = Vec::new();
    if let Err(error) = write_lines(entries, &[], &mut lines) {
        return vec![format!("the history cannot be written: {error}")];
    }
    let history = match History::from_json(&String::from_utf8_lossy(&lines)) {
        Ok(history) => history,
        Err(error) => return vec![format!("the history cannot be read: {error}")],
    };
    // Without these names, the checker gives up on a history with such an anomaly, and calls it valid.
    let anomalies = ["duplicate-appends", "unexpected-txn-micro-op-types"].map(Into::into).into();
    let options = Opts { models: vec!["strict-serializable".into()], anomalies, ..Opts::default() };
    let report = adya::check(&history, Workload::ListAppend, &options);
    match report.valid {
        Valid::True => Vec::new(),
        Valid::Unknown => {
            let found = report.anomaly_types.join(", ");
            vec![format!("it could not be decided whether the history is strictly serializable ({found})")]
        }
        _ => {
            let (found, not) = (report.anomaly_types.join(", "), report.not.join(", "));
            vec![format!("not strictly serializable ({found}), and not {not}:\n{}", explained(&report))]
        }
    }
}

/// Returns what the checker found and why. Transactions are only named by their index in the history.
fn explained(report: &Report) -> String {
    let anomalies = report.anomalies.values().flatten();
    let lines = anomalies.map(|anomaly| {
        let why = anomaly.explanation.rsplit("Then:\n").next().unwrap_or_default();
        format!("{}: {}", anomaly.kind, why.trim())
    });
    lines.collect::<Vec<_>>().join("\n")
}
