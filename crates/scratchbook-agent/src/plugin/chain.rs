//! The plugins of a runner, as sequences of callbacks in the form that an agent's own callbacks have.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::Plugin;
use crate::agent::{AgentCallbacks, InvocationContext, ModelCallbacks};
use scratchbook_core::content::Content;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::event::Event;

/// The plugins of a runner.
#[derive(Clone, Default)]
pub(crate) struct Plugins {
    plugins: Vec<Arc<dyn Plugin>>,
    agent: AgentCallbacks,
    /// The plugins' callbacks around model calls and tool calls.
    pub(crate) model: ModelCallbacks,
}

impl Plugins {
    /// # Errors
    ///
    /// `InvalidArgument` if two plugins have the same name.
    pub(crate) fn new(plugins: Vec<Arc<dyn Plugin>>) -> Result<Self> {
        let (mut agent, mut model) = (AgentCallbacks::default(), ModelCallbacks::default());
        for (place, plugin) in plugins.iter().enumerate() {
            let name = plugin.name();
            if plugins[..place].iter().any(|other| other.name() == name) {
                return Err(Error::invalid(format!("two plugins are called '{name}'; give each a name of its own")));
            }
            add_agent_callbacks(&mut agent, plugin);
            add_model_callbacks(&mut model, plugin);
            add_tool_callbacks(&mut model, plugin);
        }
        Ok(Self { plugins, agent, model })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.plugins.is_empty()
    }

    /// Returns the plugins' callbacks around an agent's turn, followed by the agent's own.
    pub(crate) fn around(&self, own: &AgentCallbacks) -> AgentCallbacks {
        self.agent.clone().and(own)
    }

    pub(crate) async fn on_user_message(&self, context: &InvocationContext, mut message: Content) -> Result<Content> {
        for plugin in &self.plugins {
            let called = plugin.on_user_message(context.clone(), message).await;
            match called.map_err(|error| blame(plugin, "on_user_message", error))? {
                ControlFlow::Continue(next) => message = next,
                ControlFlow::Break(last) => return Ok(last),
            }
        }
        Ok(message)
    }

    pub(crate) async fn before_run(&self, context: &InvocationContext) -> Result<Option<Content>> {
        for plugin in &self.plugins {
            let called = plugin.before_run(context.clone()).await;
            if let Some(content) = called.map_err(|error| blame(plugin, "before_run", error))? {
                return Ok(Some(content));
            }
        }
        Ok(None)
    }

    pub(crate) async fn on_event(&self, context: &InvocationContext, mut event: Event) -> Result<Event> {
        let origin = (event.id.clone(), event.invocation_id.clone(), event.timestamp);
        for plugin in &self.plugins {
            let called = plugin.on_event(context.clone(), event).await;
            let (next, is_last) = match called.map_err(|error| blame(plugin, "on_event", error))? {
                ControlFlow::Continue(next) => (next, false),
                ControlFlow::Break(last) => (last, true),
            };
            event = next;
            if is_last {
                break;
            }
        }
        (event.id, event.invocation_id, event.timestamp) = origin;
        Ok(event)
    }

    pub(crate) async fn after_run(&self, context: &InvocationContext) -> Result<()> {
        for plugin in &self.plugins {
            let called = plugin.after_run(context.clone()).await;
            called.map_err(|error| blame(plugin, "after_run", error))?;
        }
        Ok(())
    }

    pub(crate) async fn on_run_error(&self, context: &InvocationContext, error: &Error) {
        for plugin in &self.plugins {
            plugin.on_run_error(context.clone(), error).await;
        }
    }
}

fn blame(plugin: &Arc<dyn Plugin>, callback: &str, error: Error) -> Error {
    error.context(format!("the plugin '{}' in {callback}", plugin.name()))
}

/// Makes a callback of a plugin's method: passes the arguments on, and names the plugin in an error.
macro_rules! callback {
    ($plugin:ident, $method:ident($($argument:ident $(: $by:tt)?),*)) => {{
        let plugin = Arc::clone($plugin);
        Arc::new(move |($($argument,)*)| -> BoxFuture<'static, _> {
            let plugin = Arc::clone(&plugin);
            Box::pin(async move {
                let called = plugin.$method($($($by)? $argument),*).await;
                called.map_err(|error| blame(&plugin, stringify!($method), error))
            })
        })
    }};
}

fn add_agent_callbacks(callbacks: &mut AgentCallbacks, plugin: &Arc<dyn Plugin>) {
    callbacks.before.push(callback!(plugin, before_agent(context)));
    callbacks.after.push(callback!(plugin, after_agent(context)));
    let plugin = Arc::clone(plugin);
    callbacks.on_error.push(Arc::new(move |(context, error)| {
        let plugin = Arc::clone(&plugin);
        Box::pin(async move { plugin.on_agent_error(context, &error).await })
    }));
}

fn add_model_callbacks(callbacks: &mut ModelCallbacks, plugin: &Arc<dyn Plugin>) {
    callbacks.before_model.push(callback!(plugin, before_model(context, request)));
    callbacks.after_model.push(callback!(plugin, after_model(context, response)));
    callbacks.on_model_error.push(callback!(plugin, on_model_error(context, request: &, error: &)));
}

fn add_tool_callbacks(callbacks: &mut ModelCallbacks, plugin: &Arc<dyn Plugin>) {
    callbacks.before_tool.push(callback!(plugin, before_tool(context, call)));
    callbacks.after_tool.push(callback!(plugin, after_tool(context, call: &, answer)));
    callbacks.on_tool_error.push(callback!(plugin, on_tool_error(context, call: &, error: &)));
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plugins").field(&self.plugins).finish()
    }
}
