//! JSON columns of google-adk's databases. An accepted event stays the same when it is written and read again, and when
//! it is imported again. Each key of a state is either kept with its value or refused.
#![no_main]

use std::collections::BTreeSet;

use libfuzzer_sys::fuzz_target;
use scratchbook::{ErrorKind, Event, StateDelta};
use scratchbook_cli::untrusted::{adk_event, adk_state};
use serde_json::{Map, Value};

fuzz_target!(|text: &str| {
    match adk_event(text) {
        Ok(event) => {
            assert!(!event.id.is_empty() && event.timestamp.is_some() && !event.is_partial());
            let written = serde_json::to_string(&event).expect("an event that was read can be written");
            assert_eq!(Event::from_json(&written).expect("an event that was written can be read"), event);
            assert_eq!(adk_event(&written).expect("an event that was imported can be imported"), event);
        }
        Err(error) => refused(error.kind()),
    }
    let (kept, refusals) = match adk_state(text) {
        Ok(state) => state,
        Err(error) => return refused(error.kind()),
    };
    for (key, value) in &kept {
        StateDelta::new().set(key.as_str(), value).expect("a key that was kept can be stored");
    }
    refusals.iter().for_each(|(_, why)| refused(why.kind()));
    // Numbers that Python writes and JSON does not have are read by the import alone.
    let Ok(plain) = serde_json::from_str::<Map<String, Value>>(text) else { return };
    let names: BTreeSet<_> = kept.keys().chain(refusals.iter().map(|(name, _)| name)).collect();
    assert_eq!(names, plain.keys().collect());
});

fn refused(kind: ErrorKind) {
    let kinds = [ErrorKind::InvalidArgument, ErrorKind::PayloadTooLarge];
    assert!(kinds.contains(&kind), "{kind:?}");
}
