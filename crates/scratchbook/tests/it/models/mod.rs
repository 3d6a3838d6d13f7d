//! Models over HTTP, against servers that speak their published formats.

mod gemini;
mod server;
