//! Tables and questions on a terminal.

use crate::terminal::Terminal;
use crate::{Fixture, S1};

const ID: &str = "019aa3b2-5d1c-7f00-8a6e-000000000001";

/// Creates a session whose address and keys are long.
fn filled() -> Fixture {
    let fixture = Fixture::empty();
    let address = ["-a", "support_desk_europe", "-u", "alice.liddell@example.com", "-s", ID];
    let state = ["preferences_of_delivery=by bicycle, in the evening, and not to the neighbours on the left", "n=1"];
    fixture.text(&[&["sessions", "create", "--title", "A parcel that did not come"], &address[..], &state].concat());
    fixture.text(&["state", "set", "--last", "preferences_of_delivery=by boat"]);
    fixture
}

#[test]
fn ids_and_keys_stay_whole_at_every_width() {
    let fixture = filled();
    for columns in [60, 80, 120] {
        for (args, whole) in [
            (
                "sessions list",
                &["support_desk_europe/alice.liddell@example.com/019aa3b2-5d1c-7f00-8a6e-000000000001"][..],
            ),
            ("sessions list --app support_desk_europe", &["alice.liddell@example.com", ID]),
            ("users list", &["support_desk_europe", "alice.liddell@example.com"]),
            ("apps", &["support_desk_europe"]),
            ("state get --last", &["preferences_of_delivery"]),
            ("state diff --last 0 1", &["preferences_of_delivery", "by boat"]),
            ("state blame --last", &["preferences_of_delivery", ID]),
            ("state history --last preferences_of_delivery", &[ID, "by boat"]),
        ] {
            let shown = Terminal::open(&fixture, columns, args, &[("NO_COLOR", "1")]).rest();
            for whole in whole {
                assert!(shown.contains(whole), "{args} at {columns}:\n{shown}");
            }
            let longest = whole.iter().map(|whole| whole.len() + "SESSION  ".len()).max().unwrap_or_default();
            let limit = longest.max(columns.into());
            assert!(shown.lines().all(|line| line.chars().count() <= limit), "{args} at {columns}:\n{shown}");
        }
    }
    let narrow = Terminal::open(&fixture, 60, "state blame --last", &[("NO_COLOR", "1")]).rest();
    assert!(narrow.contains("\r\n\r\nKEY      preferences_of_delivery\r\nWRITTEN  "), "{narrow}");
}

#[test]
fn what_cannot_be_undone_is_asked_about() {
    let fixture = Fixture::with_session(3);
    let mut terminal = Terminal::open(&fixture, 80, "sessions delete s1", &[]);
    terminal.until("  shop/alice/s1\r\nDelete 1 session, with events and state? This cannot be undone. [y/N] ");
    terminal.press("n\r");
    terminal.until("nothing was deleted");
    assert_eq!(terminal.end(), Some(6));
    let mut terminal = Terminal::open(&fixture, 80, "prune --keep-last 1", &[]);
    terminal.until("Prune? This cannot be undone. [y/N] ");
    terminal.press("y\r");
    terminal.until("gone: 2 events of 1 session");
    assert_eq!(terminal.end(), Some(0));
    let mut terminal = Terminal::open(&fixture, 80, "sessions delete s", &[]);
    terminal.until("[y/N] ");
    terminal.press("y\r");
    terminal.until("deleted shop/alice/s1");
    assert_eq!(terminal.end(), Some(0));
    fixture.fails(3, &[&["sessions", "show"], &S1[..]].concat());
}
