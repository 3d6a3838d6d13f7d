//! What the readers of all sources share.

/// Who is said to have written what an import writes of its own.
pub(super) const IMPORTER: &str = "scratchbook-import";

/// How many rows, events or changes are read at a time.
pub(super) const PAGE: usize = 1_000;

/// What is wrong with a text that should be a JSON object, and where, without what stands there: it may be a secret.
pub(super) fn not_an_object(error: &serde_json::Error) -> String {
    let why = match error.classify() {
        serde_json::error::Category::Data => "it is another value",
        serde_json::error::Category::Eof => "it ends too early",
        _ => "it is malformed",
    };
    format!("it is no JSON object: {why}, at column {}", error.column())
}
