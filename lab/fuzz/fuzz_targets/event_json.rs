//! Any text is an event or causes an error, never a panic. An event stays the same when it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scratchbook::Event;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(event) = Event::from_json(text) else { return };
    let written = serde_json::to_string(&event).expect("an event that was read can be written");
    let again = Event::from_json(&written).expect("an event that was written can be read");
    assert_eq!(event, again, "{written}");
});
