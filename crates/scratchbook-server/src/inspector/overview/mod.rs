//! The overview: what the server's store has done in the last half hour, as small plots.
//!
//! - `with_activity.rs`: the layer around the store that counts into `activity.rs`.
//! - `page.rs`: the page. `plot.rs`: a plot as SVG.

mod page;
mod plot;
mod with_activity;

pub(super) use page::page;
pub(crate) use with_activity::WithActivity;
