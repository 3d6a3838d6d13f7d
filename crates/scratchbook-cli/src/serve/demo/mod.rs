//! The agents of `scratchbook serve`: offline, with a model that follows a script, and otherwise as yours would be.

mod model;
mod shop;
mod story;

use std::sync::Arc;

use scratchbook::{Agent, Content, Llm, Result};

use model::DemoModel;

/// The model that says what it was told.
pub(super) const ECHO: &str = "echo";
/// The model of the app `demo`.
pub(super) const SHOP: &str = "shop";

/// The apps, by name.
pub(super) fn apps() -> [Result<(&'static str, Arc<dyn Agent>)>; 2] {
    [
        shop::agent().map(|agent| ("demo", Arc::new(agent) as Arc<dyn Agent>)),
        story::agent().map(|agent| ("story", Arc::new(agent) as Arc<dyn Agent>)),
    ]
}

/// A model that says what it was told.
pub(super) fn echo() -> impl Llm {
    DemoModel(|request| {
        let said = request.contents.iter().rev().find(|content| content.role.as_deref() == Some("user"));
        format!("You said: {}", said.map(Content::text).unwrap_or_default()).into()
    })
}

pub(super) use shop::{model as shop, tools};
