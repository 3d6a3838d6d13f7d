//! A tool from an async function with typed arguments.

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

/// An async function as a tool; the JSON Schema the model is shown comes from the arguments' type.
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

/// Which calls the user has to agree to.
enum Confirmation<A> {
    None,
    All,
    If(Box<dyn Fn(&A) -> bool + Send + Sync>),
}

impl<A: DeserializeOwned + JsonSchema + 'static> FunctionTool<A> {
    /// A tool of this name; the description is for the model.
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

    /// The same tool with this JSON Schema shown to the model in place of the one that comes from the arguments' type.
    /// What the model sends must still be read as that type.
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

    /// The same tool as one whose answer comes later, by a function response in a message to come. What the function gives
    /// is a first answer, such as `{"status": "pending"}`; `()` or any other `null` is none yet. The model is told not to
    /// call it again meanwhile, in ADK's words.
    #[must_use]
    pub fn long_running(mut self) -> Self {
        self.long_running = true;
        self
    }

    /// The same tool as one that the user has to agree to each time: it is run when a message confirms the call, see
    /// [`ToolConfirmation`](crate::tool::ToolConfirmation). Where the user does not agree, the model is told so.
    #[must_use]
    pub fn require_confirmation(mut self) -> Self {
        self.confirmation = Confirmation::All;
        self
    }

    /// The same tool as one that the user has to agree to where its arguments say so.
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
            // Arguments that do not fit are told by the call itself, which is not run either.
            Confirmation::If(predicate) => self.read(args.clone()).is_ok_and(|args| predicate(&args)),
        })
    }
}

impl<A> fmt::Debug for FunctionTool<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool").field("name", &self.declaration.name).finish_non_exhaustive()
    }
}
