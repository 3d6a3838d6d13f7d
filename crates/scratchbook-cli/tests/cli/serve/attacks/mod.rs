//! Attacks by one caller with 64 clients, on a server that has 4 GiB of address space. The server stays up, its memory
//! stays small, and it continues to serve another caller.
//!
//! `SCRATCHBOOK_ATTACK_SECONDS` is the duration of each attack. `SCRATCHBOOK_ATTACK_P99_MS` is the limit for another
//! caller's requests; it is meaningful only for a release build on a quiet machine. `SCRATCHBOOK_ATTACK_BINARY` names
//! another `scratchbook` to attack. Each attack prints a line with its measurements.

mod stage;
mod strikes;

use std::time::Duration;

use stage::{AttackMeasurements, AttackStage};

/// The limit for the server's peak memory.
const PEAK_BYTES: u64 = 1 << 30;

/// Asserts the limits of an attack.
fn hold(attack: &str, stage: AttackStage, measured: &AttackMeasurements) {
    println!("{attack}: {measured}");
    let limit = std::env::var("SCRATCHBOOK_ATTACK_P99_MS").map_or(5000, |text| text.parse().unwrap());
    assert!(measured.is_up, "{attack}: the server is gone: {measured}");
    assert!(measured.peak_bytes < PEAK_BYTES, "{attack}: the server took too much memory: {measured}");
    for seen in [&measured.health, &measured.read] {
        assert!(seen.count > 0 && seen.failed == 0, "{attack}: another caller was not served: {measured}");
        assert!(seen.p99 < Duration::from_millis(limit), "{attack}: another caller waited: {measured}");
    }
    assert_eq!(stage.end(), Some(0), "{attack}: the server did not end well");
}

#[test]
fn bodies_of_many_parts_stop_nobody() {
    let stage = AttackStage::new(&[]);
    let measured = stage.attacked_by(&strikes::runs_of_many_parts(&stage));
    hold("16 MiB of parts by a token that may only read", stage, &measured);
}

#[test]
fn sessions_of_many_events_stop_nobody() {
    let stage = AttackStage::new(&[]);
    let measured = stage.attacked_by(&strikes::creations_of_many_events());
    hold("1 MiB of empty events at creation", stage, &measured);
}

#[test]
#[ignore = "long: large states are written"]
fn lists_of_large_states_stop_nobody() {
    let stage = AttackStage::new(&[]);
    strikes::make_large_lists(&stage);
    let measured = stage.attacked_by(&strikes::large_lists());
    hold("lists of 1,000 sessions with 4 MiB of user state", stage, &measured);
}

#[test]
#[ignore = "long: large states are written"]
fn large_states_that_are_read_whole_stop_nobody() {
    for keys in [7, 12] {
        let stage = AttackStage::new(&[]);
        strikes::make_large_state(&stage, "large", keys);
        let measured = stage.attacked_by(&strikes::whole_states("large"));
        hold(&format!("every read of {keys} values of 4 MiB"), stage, &measured);
    }
}

#[test]
fn metadata_of_many_versions_stops_nobody() {
    let stage = AttackStage::new(&[]);
    strikes::make_versions(&stage, "s1", 200);
    let measured = stage.attacked_by(&strikes::versions("s1"));
    hold("versions of an artifact with 64 KiB of metadata each", stage, &measured);
}

#[test]
fn patches_that_wait_for_a_lock_of_the_file_stop_no_reader() {
    let stage = AttackStage::new(&[]);
    stage.make("mallory", "s1");
    let lock = std::fs::File::open(stage.path("agents.db-lock")).unwrap();
    lock.lock().unwrap();
    let patches = strikes::patches_of("s1");
    let measured = std::thread::scope(|scope| {
        let attacked = scope.spawn(|| stage.attacked_by(&patches));
        std::thread::sleep(Duration::from_secs(4));
        lock.unlock().unwrap();
        attacked.join().unwrap()
    });
    hold("ADK's PATCHes while another process holds the lock of the file", stage, &measured);
}

#[test]
#[ignore = "long: runs are waited for at the end"]
fn runs_that_do_not_end_leave_room_for_others() {
    let stage = AttackStage::new(&["--max-runs", "100"]);
    stage.make("mallory", "s1");
    let measured = stage.attacked_by(&strikes::runs_on_one_session());
    let begun = stage.begins_a_run("bob");
    hold("runs on a session whose model does not answer", stage, &measured);
    assert!(begun, "another caller cannot begin a run");
}

#[test]
fn idle_connections_leave_room_for_others() {
    let stage = AttackStage::with_files(1024, &[]);
    let idle = strikes::idle_connections(&stage, 1100);
    let measured = stage.attacked_by(&strikes::watches());
    hold("1,100 idle connections, and watches, with 1,024 files", stage, &measured);
    drop(idle);
}

#[test]
fn large_reads_leave_others_their_turn() {
    let stage = AttackStage::new(&[]);
    stage.make_with_events("mallory", "long", 10_000);
    let measured = stage.attacked_by(&strikes::reads_of("long"));
    hold("reads of a session of 10,000 events", stage, &measured);
}

#[test]
#[ignore = "long: large events are written"]
fn large_writes_leave_others_their_turn() {
    let stage = AttackStage::new(&[]);
    stage.make("mallory", "s1");
    let measured = stage.attacked_by(&strikes::large_appends());
    hold("appends of 3 MiB", stage, &measured);
}

#[test]
fn watchers_of_others_cost_a_writer_nothing() {
    let stage = AttackStage::new(&[]);
    let watchers = strikes::watchers(&stage, 64);
    let measured = stage.attacked_by(&strikes::small_appends());
    hold("watchers that receive nothing, and small appends", stage, &measured);
    drop(watchers);
}

#[test]
fn reads_that_nobody_waits_for_end() {
    let stage = AttackStage::new(&[]);
    stage.make_with_events("mallory", "long", 20_000);
    let measured = stage.attacked_by(&strikes::reads_left_at_once("long"));
    hold("reads of 20,000 events whose clients leave", stage, &measured);
}
