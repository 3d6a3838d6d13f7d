//! Common parts of SQL stores: writes as text, and sessions from rows.

pub mod artifact_text;
pub mod rows;
pub mod text;
