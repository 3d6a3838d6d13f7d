//! A copy is whole, also while another process writes.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::{Fixture, output, scratchbook, text, uri};

#[test]
fn a_copy_made_under_load_is_consistent() {
    let fixture = Fixture::new();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut runs = 0;
            while !stop.load(Ordering::Relaxed) {
                fixture.text(&["demo", "support-chat", "game"]);
                runs += 1;
            }
            runs
        });
        for n in 0..5 {
            let copy = fixture.path(&format!("copy{n}.db"));
            let said = fixture.text(&["backup", copy.to_str().unwrap()]);
            assert!(said.contains("bytes"), "{said}");
            // A whole run fits on the copy: its tables, its state and its sessions are as they must be.
            let mut demo = scratchbook();
            demo.args(["demo", "--database", &uri(&copy)]);
            text(demo);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 0, "there was load");
    });
}

#[test]
fn a_file_that_exists_is_left_alone() {
    let fixture = Fixture::new();
    let there = fixture.path("there");
    std::fs::write(&there, "precious").unwrap();
    let said = fixture.fails(4, &["backup", there.to_str().unwrap()]);
    assert!(said.contains("exists"), "{said}");
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "precious");
    fixture.fails(3, &["backup", fixture.path("no folder/copy.db").to_str().unwrap()]);
    fixture.fails(11, &["--database", "memory:", "backup", fixture.path("copy.db").to_str().unwrap()]);
}

#[test]
fn an_interrupted_demo_leaves_a_database_that_works() {
    let fixture = Fixture::new();
    for wait in [0, 20, 60, 120] {
        let mut demo = fixture.command(&["demo"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(std::time::Duration::from_millis(wait));
        let mut interrupt = std::process::Command::new("kill");
        interrupt.args(["-INT", &demo.id().to_string()]);
        output(interrupt);
        demo.wait().unwrap();
    }
    fixture.text(&["demo"]);
}
