//! The command, for some seconds on each topology.
#![cfg(unix)]

use std::process::Command;

#[test]
fn every_store_is_strictly_serializable_while_servers_and_databases_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_histories"));
    command.args(["run", "short", "--seconds", "5", "--folder"]).arg(folder.path());
    let output = command.output().unwrap();
    let (table, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{table}");
    assert!(output.status.success(), "{table}\n{said}");
    let rows: Vec<_> = table.lines().skip(2).collect();
    assert_eq!(rows.len(), 5, "{table}");
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let (committed, violations) = (cells[3].parse::<u64>().unwrap(), cells[7]);
        assert!(committed > 30 && violations == "0", "{row}");
        let history = std::fs::read_to_string(folder.path().join(format!("{}.jsonl", cells[1]))).unwrap();
        let ended = history.lines().filter(|line| line.contains(r#""type":"ok""#)).count() as u64;
        assert_eq!(ended, committed, "the history in Elle's format has all that the row counts: {row}");
    }
}

#[test]
fn a_topology_that_does_not_exist_is_refused_with_those_that_do() {
    let output = Command::new(env!("CARGO_BIN_EXE_histories")).args(["run", "oracle"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no topology 'oracle'") && said.contains("sqlite-4"), "{said}");
}
