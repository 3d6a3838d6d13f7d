//! A tool made from an async function with typed arguments.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;

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
/// use scratchbook::{FunctionTool, ToolContext};
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
pub struct FunctionTool<A> {
    declaration: FunctionDeclaration,
    long_running: bool,
    confirmation: Confirmation<A>,
    function: Box<dyn Fn(A, ToolContext) -> BoxFuture<'static, Result<Value>> + Send + Sync>,
    arguments: PhantomData<fn(A)>,
}

/// Which calls need the user's consent.
enum Confirmation<A> {
    None,
    All,
    If(Box<dyn Fn(&A) -> bool + Send + Sync>),
}

impl<A: DeserializeOwned + JsonSchema + 'static> FunctionTool<A> {
    /// A tool with this name; the description is for the model.
    #[must_use]
    pub fn new<F, Fut, R>(name: impl Into<String>, description: impl Into<String>, function: F) -> Self
    where
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R>> + Send + 'static,
        R: Serialize,
    {
        let declaration = FunctionDeclaration {
            name: name.into(),
            description: description.into(),
            parameters_json_schema: schema_for!(A).to_value(),
        };
        let function = Box::new(move |args, context| {
            let running = function(args, context);
            let answer: BoxFuture<'static, _> = Box::pin(async move { to_value(&running.await?) });
            answer
        });
        let confirmation = Confirmation::None;
        Self { declaration, long_running: false, confirmation, function, arguments: PhantomData }
    }

    /// Shows the model this JSON Schema instead of the one derived from the arguments' type. The model's arguments must
    /// still parse as that type.
    ///
    /// ```
    /// use scratchbook::{FunctionTool, Tool, ToolContext};
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

    /// Marks the tool as long-running: its answer comes later, as a function response in another message. The function
    /// returns a first answer, such as `{"status": "pending"}`; `()` or any other `null` means that there is none yet.
    /// The model is instructed not to call the tool again in the meantime, in ADK's words.
    #[must_use]
    pub fn long_running(mut self) -> Self {
        self.long_running = true;
        self
    }

    /// Requires the user's consent for every call. The tool runs when a message confirms the call, see
    /// [`ToolConfirmation`](crate::tool::ToolConfirmation). If the user rejects the call, its response for the model
    /// says so.
    #[must_use]
    pub fn require_confirmation(mut self) -> Self {
        self.confirmation = Confirmation::All;
        self
    }

    /// Requires the user's consent for calls whose arguments match the predicate.
    ///
    /// ```
    /// use scratchbook::{FunctionTool, ToolContext};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Pay {
    ///     amount: u64,
    /// }
    ///
    /// let pay = FunctionTool::new("pay", "Pays an amount.", |args: Pay, _: ToolContext| async move { Ok(args.amount) });
    /// let pay = pay.require_confirmation_if(|args| args.amount > 100);
    /// ```
    #[must_use]
    pub fn require_confirmation_if(mut self, predicate: impl Fn(&A) -> bool + Send + Sync + 'static) -> Self {
        self.confirmation = Confirmation::If(Box::new(predicate));
        self
    }

    fn read(&self, args: Map<String, Value>) -> Result<A> {
        serde_json::from_value(Value::Object(args)).map_err(|e| {
            let (name, why) = (&self.declaration.name, json::describe(&e));
            Error::invalid(format!("the arguments of '{name}' do not fit its schema: {why}"))
        })
    }
}

#[async_trait]
impl<A: DeserializeOwned + JsonSchema + 'static> Tool for FunctionTool<A> {
    fn declaration(&self) -> &FunctionDeclaration {
        &self.declaration
    }

    fn is_long_running(&self) -> bool {
        self.long_running
    }

    async fn run(&self, args: Map<String, Value>, context: ToolContext) -> Result<Value> {
        let running = (self.function)(self.read(args)?, context);
        running.await
    }

    async fn requires_confirmation(&self, args: &Map<String, Value>, _context: &ToolContext) -> Result<bool> {
        Ok(match &self.confirmation {
            Confirmation::None => false,
            Confirmation::All => true,
            // Invalid arguments are reported by the call itself, which does not run either.
            Confirmation::If(predicate) => self.read(args.clone()).is_ok_and(|args| predicate(&args)),
        })
    }
}

impl<A> fmt::Debug for FunctionTool<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool").field("name", &self.declaration.name).finish_non_exhaustive()
    }
}
