//! The built-in agents. A script answers in the model's place, so they work offline. Otherwise they work like any
//! agent.

mod model;
mod shop;
mod story;

use std::sync::Arc;

use scratchbook::model::Llm;
use scratchbook::{Agent, Content, Result};

use model::{DemoModel, DemoScript};

/// The name of the model that repeats the last message.
pub(super) const ECHO: &str = "echo";
/// The name of the model that answers in the app `demo`.
pub(super) const SHOP: &str = "shop";

/// Returns the apps by name. Their scripts answer if no model is given.
pub(super) fn apps(model: Option<&Arc<dyn Llm>>) -> [Result<(&'static str, Arc<dyn Agent>)>; 2] {
    let model_or =
        |script: DemoScript| model.map_or_else(|| Arc::new(DemoModel::new(script)) as Arc<dyn Llm>, Arc::clone);
    [
        shop::agent(model_or(shop::answer)).map(|agent| ("demo", Arc::new(agent) as Arc<dyn Agent>)),
        story::agent(model_or).map(|agent| ("story", Arc::new(agent) as Arc<dyn Agent>)),
    ]
}

/// Creates a model that repeats the last message.
pub(super) fn echo() -> impl Llm {
    DemoModel::named(ECHO, |request| {
        let said = request.contents.iter().rev().find(|content| content.role.as_deref() == Some("user"));
        format!("You said: {}", said.map(Content::text).unwrap_or_default()).into()
    })
}

/// Creates the script of the app `demo`.
pub(super) fn shop() -> impl Llm {
    DemoModel::named(SHOP, shop::answer)
}

pub(super) use shop::tools;
