//! Models over HTTP, against servers that speak their published formats.

mod failures;
mod gemini;
mod names;
mod server;
