//! The agents of `scratchbook serve`: offline, with a model that follows a script, and otherwise as yours would be.

mod model;
mod shop;
mod story;

use std::sync::Arc;

use scratchbook::{Agent, Result};

/// The names of the apps.
pub(super) const NAMES: [&str; 2] = ["demo", "story"];

/// The apps, by name.
pub(super) fn apps() -> [Result<(&'static str, Arc<dyn Agent>)>; 2] {
    let [shop, story] = NAMES;
    [
        shop::agent().map(|agent| (shop, Arc::new(agent) as Arc<dyn Agent>)),
        story::agent().map(|agent| (story, Arc::new(agent) as Arc<dyn Agent>)),
    ]
}
