//! Instruction templates. Any text is parsed and rendered without a panic. Text without braces stays as it is, and
//! inserted text is never scanned again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scratchbook::StateMap;
use scratchbook::agent::InstructionTemplate;
use serde_json::{Map, json};

fuzz_target!(|text: &str| {
    let template = InstructionTemplate::parse(text);
    let rendered = template.render(&StateMap::default());
    if !text.contains(['{', '}']) {
        assert_eq!(rendered.as_deref().ok(), Some(text));
    }
    if let Ok(rendered) = rendered {
        assert!(rendered.len() <= text.len(), "an empty state adds nothing");
    }
    let state: Map<_, _> = ["a", "b", "user:a", "app:b", "temp:c"]
        .into_iter()
        .map(|key| (key.to_owned(), json!({"a": "{a}{{b}}", "b": [null, "{c}"]})))
        .collect();
    let state = StateMap::from(state);
    assert_eq!(template.render(&state).ok(), template.render(&state).ok());
});
