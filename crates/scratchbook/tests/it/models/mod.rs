//! Models over HTTP, against servers that speak their published formats.

mod anthropic;
mod anthropic_asked;
mod ask;
mod attached;
mod failures;
mod gemini;
mod gemini_requests;
mod imprecise;
mod names;
mod ollama;
mod openai;
mod openai_asked;
mod others;
mod promises;
pub(crate) mod server;
mod tool_names;
