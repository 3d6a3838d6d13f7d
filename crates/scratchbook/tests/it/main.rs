//! x
mod conformance;
