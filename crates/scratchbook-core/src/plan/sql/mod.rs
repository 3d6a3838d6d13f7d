//! What stores on SQL share: writes as text, and rows as sessions.

pub mod artifact_text;
pub mod rows;
pub mod text;
