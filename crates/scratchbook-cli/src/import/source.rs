//! Constants and errors that the readers of all sources share.

/// The author of the writes that an import adds.
pub(super) const IMPORTER: &str = "scratchbook-import";

/// The page size for rows, events and changes.
pub(super) const PAGE: usize = 1_000;

/// The most bytes that a line of an export, and a text in a database of google-adk's, may have: they are read whole.
pub(super) const MAX_TEXT: u64 = 64 << 20;

/// Describes why and where a text is not a JSON object. It does not quote the text, which may be secret.
pub(super) fn not_an_object(error: &serde_json::Error) -> String {
    let why = match error.classify() {
        serde_json::error::Category::Data => "it is another value",
        serde_json::error::Category::Eof => "it ends too early",
        _ => "it is malformed",
    };
    format!("it is no JSON object: {why}, at column {}", error.column())
}
