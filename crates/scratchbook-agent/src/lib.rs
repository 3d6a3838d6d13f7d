//! Agents, tools, instruction templates and the [`Runner`](runner::Runner) of
//! [scratchbook](https://docs.rs/scratchbook), over any of its stores.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod agent;
#[cfg(feature = "config")]
pub mod config;
pub mod instruction;
pub mod model;
pub mod runner;
pub mod tool;
