//! Tests the command, for some seconds on each topology.
#![cfg(unix)]
#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

#[test]
fn every_store_is_strictly_serializable_while_servers_and_databases_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_histories"));
    command.args(["run", "short", "--seconds", "5", "--at-once", "3", "--folder"]).arg(folder.path());
    let output = command.output().unwrap();
    let (table, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{table}");
    assert!(output.status.success(), "{table}\n{said}");
    let rows: Vec<_> = table.lines().skip(2).collect();
    assert_eq!(rows.len(), 5, "{table}");
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let ([written, read], violations) =
            ([cells[3], cells[4]].map(|cell| cell.parse::<u64>().unwrap()), &cells[9..12]);
        // On MariaDB, a read just before the server is killed may show a commit that is lost.
        let is_whole = violations[2] == "0" || cells[1] == "mariadb-3";
        assert!(written > 30 && violations[..2] == ["0"; 2] && is_whole, "{row}");
        let history = std::fs::read_to_string(folder.path().join(format!("{}.jsonl", cells[1]))).unwrap();
        let ended = history.lines().filter(|line| line.contains(r#""type":"ok""#)).count() as u64;
        assert_eq!(ended, written + read, "the history in Elle's format has all that the row counts: {row}");
    }
}

#[test]
fn stores_and_servers_of_ones_own_are_attacked_together() {
    let folder = tempfile::tempdir().unwrap();
    let uri = |name: &str| format!("sqlite://{}", folder.path().join(name).display());
    let mut server = Command::new(env!("CARGO_BIN_EXE_histories"));
    let mut server = server.args(["serve", &uri("a.db")]).stdout(Stdio::piped()).spawn().unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let url = format!("http://127.0.0.1:{}/", port.trim());
    let against = |uris: [&str; 2]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_histories"));
        command.args(["against", "--seconds", "1"]).args(uris).output().unwrap()
    };
    let one = against([&url, &uri("a.db")]);
    let wrong = against([&url, "oracle:me:s3cret"]);
    server.kill().unwrap();
    server.wait().unwrap();
    let (table, said) = (String::from_utf8_lossy(&one.stdout), String::from_utf8_lossy(&one.stderr));
    let row = table.lines().nth(2).unwrap_or_default();
    assert!(
        one.status.success() && row.starts_with("| your own | 1 |") && row.ends_with("| 0 | 0 | 0 |"),
        "{row} {said}"
    );
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(!wrong.status.success() && said.contains("URI 2: ") && !said.contains("s3cret"), "{said}");
}

#[cfg(target_os = "linux")]
const NOTHING_LOST: &str = "0, 0 at most";

/// Cuts the power this many times. Returns whether there was no violation, and the cells of the row.
#[cfg(target_os = "linux")]
fn cut_power(arguments: &[&str], cuts: u64) -> (bool, Vec<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_histories"));
    command.args(["power", "--cuts", &cuts.to_string()]).args(arguments);
    let output = command.output().unwrap();
    let (table, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{table}{said}");
    let row = table.lines().nth(2).unwrap_or_default();
    let cells: Vec<_> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
    assert_eq!(cells.len(), 12, "{table}{said}");
    (output.status.success(), cells)
}

/// `SCRATCHBOOK_POWER_CUTS` is the number of cuts.
#[cfg(target_os = "linux")]
#[test]
fn what_is_acknowledged_survives_a_power_cut_unless_the_database_is_set_to_forget_it() {
    let cuts = std::env::var("SCRATCHBOOK_POWER_CUTS").map_or(12, |cuts| cuts.parse().unwrap());
    let is_some_lost = ["full", "normal"].map(|setting| {
        let lost = ["1", "4"].map(|processes| {
            let (is_kept, row) = cut_power(&["--setting", setting, "--processes", processes], cuts);
            assert!(is_kept && row[10] == "0", "{row:?}");
            row[6] != NOTHING_LOST
        });
        lost.contains(&true)
    });
    assert_eq!(is_some_lost, [false, true], "with synchronous=full and with synchronous=normal");
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_ignores_syncs_is_found_out() {
    for disk in ["ignores-file-syncs", "ignores-folder-syncs"] {
        let (is_kept, row) = cut_power(&["--disk", disk], 12);
        assert!(!is_kept && row[10] != "0" && row[6] != NOTHING_LOST, "{row:?}");
    }
}

#[test]
fn a_topology_that_does_not_exist_is_refused_with_those_that_do() {
    let output = Command::new(env!("CARGO_BIN_EXE_histories")).args(["run", "oracle"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no topology 'oracle'") && said.contains("sqlite-4"), "{said}");
}
