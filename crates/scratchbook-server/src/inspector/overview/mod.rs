//! The overview: what the server's store has done in the last half hour, as small plots.
//!
//! - `counted.rs`: the layer around the store that counts into `activity.rs`.
//! - `page.rs`: the page. `plot.rs`: a plot as SVG.

mod counted;
mod page;
mod plot;

pub(crate) use counted::Counted;
pub(super) use page::page;
