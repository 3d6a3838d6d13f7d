//! Filters of Vertex AI's lists. A valid filter stays the same when it is written and read again. The error for an
//! invalid filter names a character of the text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use scratchbook::ErrorKind;
use scratchbook_server::filter::{Comparison, Condition, conditions};

fuzz_target!(|text: &str| {
    let length = text.chars().count();
    match conditions(text) {
        Ok(read) => {
            assert!(3 * read.len() <= length, "a condition has a name, a comparison and a value");
            let again = conditions(&written(&read)).expect("a filter that was written can be read");
            assert_eq!(read, again);
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let message = error.to_string();
            let (_, at) = message.split_once("at character ").expect("the message names the character");
            let at: usize = at.split(':').next().and_then(|at| at.parse().ok()).expect("a number");
            assert!(at <= length && message.len() < 200, "{message}");
        }
    }
});

fn written(conditions: &[Condition]) -> String {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|condition| {
            let field: Vec<_> = condition.field.iter().map(|name| quoted(name)).collect();
            let comparison = match condition.comparison {
                Comparison::Is => "=",
                Comparison::Below => "<",
                Comparison::AtMost => "<=",
                Comparison::Above => ">",
                Comparison::AtLeast => ">=",
            };
            format!("{}{comparison}{}", field.join("."), quoted(&condition.value))
        })
        .collect();
    conditions.join(" AND ")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
