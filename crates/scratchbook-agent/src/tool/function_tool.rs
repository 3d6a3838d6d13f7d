//! A tool made from an async function with typed arguments.

use std::fmt;
use std::future::{Future, ready};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Tool;
use crate::agent::ToolContext;
use crate::model::FunctionDeclaration;
use scratchbook_core::error::{Error, Result};
use scratchbook_core::json;
use scratchbook_core::state::to_value;

/// An async function as a tool. The JSON Schema for the model is derived from the arguments' type.
///
/// ```
/// use schemars::JsonSchema;
/// use scratchbook::agent::{FunctionTool, ToolContext};
/// use serde::Deserialize;
/// use serde_json::json;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct AddToCart {
///     /// What to add.
///     item: String,
///     quantity: u32,
/// }
///
/// let tool = FunctionTool::new("add_to_cart", "Adds an item to the cart.", |args: AddToCart, context: ToolContext| async move {
///     let mut cart: Vec<String> = context.state().get_as("cart")?.unwrap_or_default();
///     cart.extend(std::iter::repeat_n(args.item, args.quantity as usize));
///     context.state().set("cart", &cart)?;
///     Ok(json!({"items": cart.len()}))
/// });
/// ```
pub struct FunctionTool {
    declaration: FunctionDeclaration,
    long_running: bool,
    confirmation: Confirmation,
    /// Whether the arguments can be parsed as the function's argument type.
    is_valid: fn(&Map<String, Value>) -> bool,
    function: Box<Function>,
}

/// The function, which receives arguments that are not parsed yet.
type Function = dyn Fn(Map<String, Value>, ToolContext) -> BoxFuture<'static, Result<Value>> + Send + Sync;

/// Which calls need the user's consent.
enum Confirmation {
    None,
    All,
    If(Box<ConsentCondition>),
}

/// Whether a call with these arguments needs consent.
type ConsentCondition = dyn Fn(&Map<String, Value>) -> bool + Send + Sync;

impl FunctionTool {
    /// Creates a tool with this name. The description is for the model.
    #[must_use]
    pub fn new<A, F, Fut, R>(name: impl Into<String>, description: impl Into<String>, function: F) -> Self
    where
        A: DeserializeOwned + JsonSchema + 'static,
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Serialize,
    {
        let declaration = FunctionDeclaration {
            name: name.into(),
            description: description.into(),
            parameters_json_schema: schema_for!(A).to_value(),
            response_json_schema: None,
        };
        let name = declaration.name.clone();
        let function = Box::new(move |args, context| -> BoxFuture<'static, _> {
            match parse(&name, args) {
                Ok(args) => {
                    let running = function(args, context);
                    Box::pin(async move { to_value(&running.await?) })
                }
                Err(error) => Box::pin(ready(Err(error))),
            }
        });
        let is_valid = |args: &Map<String, Value>| parse::<A>("", args.clone()).is_ok();
        Self { declaration, long_running: false, confirmation: Confirmation::None, is_valid, function }
    }

    /// Shows the model this JSON Schema instead of the one derived from the arguments' type. The arguments that the
    /// model sends must still parse as that type.
    ///
    /// ```
    /// use scratchbook::agent::{FunctionTool, Tool, ToolContext};
    /// use serde_json::{Map, Value, json};
    ///
    /// let echo = FunctionTool::new("echo", "Says it again.", |args: Map<String, Value>, _: ToolContext| async move {
    ///     Ok(args.get("text").cloned())
    /// });
    /// let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    /// let echo = echo.with_parameters_json_schema(schema.clone());
    /// assert_eq!(echo.declaration().parameters_json_schema, schema);
    /// ```
    #[must_use]
    pub fn with_parameters_json_schema(mut self, schema: Value) -> Self {
        self.declaration.parameters_json_schema = schema;
        self
    }

    /// Marks the tool as long-running: its final answer comes later, as a function response in another message. The
    /// function itself returns a first answer, such as `{"status": "pending"}`. If it returns `()` or another value
    /// that serializes to `null`, there is no first answer. The tool's description gets a note in ADK's words that asks
    /// the model not to call the tool again in the meantime.
    #[must_use]
    pub fn long_running(mut self) -> Self {
        self.long_running = true;
        self
    }

    /// Requires the user's consent for every call. The tool runs when a message confirms the call, see
    /// [`ToolConfirmation`](crate::tool::ToolConfirmation). If the user rejects the call, the model receives a response
    /// that says so.
    #[must_use]
    pub fn require_confirmation(mut self) -> Self {
        self.confirmation = Confirmation::All;
        self
    }

    /// Requires the user's consent for calls whose arguments match the predicate. The predicate's argument type is
    /// usually the function's. Arguments that cannot be parsed as this type need consent, too.
    ///
    /// ```
    /// use scratchbook::agent::{FunctionTool, ToolContext};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Pay {
    ///     amount: u64,
    /// }
    ///
    /// fn pay() -> FunctionTool {
    ///     let pay = |args: Pay, _: ToolContext| async move { Ok(args.amount) };
    ///     FunctionTool::new("pay", "Pays an amount.", pay).require_confirmation_if(|args: &Pay| args.amount > 100)
    /// }
    /// ```
    #[must_use]
    pub fn require_confirmation_if<A: DeserializeOwned>(
        mut self,
        predicate: impl Fn(&A) -> bool + Send + Sync + 'static,
    ) -> Self {
        let predicate = move |args: &Map<_, _>| parse("", args.clone()).map_or(true, |args| predicate(&args));
        self.confirmation = Confirmation::If(Box::new(predicate));
        self
    }
}

/// Parses a call's arguments as a type.
fn parse<A: DeserializeOwned>(tool: &str, args: Map<String, Value>) -> Result<A> {
    serde_json::from_value(Value::Object(args)).map_err(|e| {
        let why = json::describe(&e);
        Error::invalid(format!("the arguments of '{tool}' do not fit its schema: {why}"))
    })
}

#[async_trait]
impl Tool for FunctionTool {
    fn declaration(&self) -> &FunctionDeclaration {
        &self.declaration
    }

    fn is_long_running(&self) -> bool {
        self.long_running
    }

    async fn run(&self, args: Map<String, Value>, context: ToolContext) -> Result<Value> {
        (self.function)(args, context).await
    }

    async fn requires_confirmation(&self, args: &Map<String, Value>, _context: &ToolContext) -> Result<bool> {
        Ok(match &self.confirmation {
            Confirmation::None => false,
            Confirmation::All => true,
            // A call with invalid arguments does not run; the call itself reports the error.
            Confirmation::If(predicate) => (self.is_valid)(args) && predicate(args),
        })
    }
}

impl fmt::Debug for FunctionTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool").field("name", &self.declaration.name).finish_non_exhaustive()
    }
}
