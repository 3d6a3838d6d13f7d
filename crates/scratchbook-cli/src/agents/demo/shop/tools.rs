//! The tools of the shop. They write to the state of every scope.

use std::sync::Arc;

use schemars::JsonSchema;
use scratchbook::Result;
use scratchbook::agent::{FunctionTool, Tool, ToolContext};
use scratchbook::content::Part;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::request::Item;

/// How many of one item a cart can hold.
const MOST: u32 = 1000;

#[derive(Deserialize, JsonSchema)]
struct NoArguments {}

#[derive(Deserialize, JsonSchema)]
struct AddArguments {
    items: Vec<Item>,
}

#[derive(Deserialize, JsonSchema)]
struct RemoveArguments {
    /// The items to remove; everything, if there are none.
    items: Vec<Item>,
}

#[derive(Deserialize, JsonSchema)]
struct RememberArguments {
    /// The customer's name.
    name: Option<String>,
    /// Any other fact to remember.
    fact: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct NoteArguments {
    text: String,
}

/// Returns all tools of the shop.
pub(in crate::agents) fn tools() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(add_to_cart()),
        Arc::new(remove_from_cart()),
        Arc::new(show_cart()),
        Arc::new(remember()),
        Arc::new(recall()),
        Arc::new(save_note()),
        Arc::new(ask_for_discount()),
        Arc::new(check_out()),
        Arc::new(forget_customer()),
    ]
}

fn add_to_cart() -> impl Tool {
    FunctionTool::new("add_to_cart", "Adds items to the cart.", |args: AddArguments, context: ToolContext| async move {
        let mut cart = cart(&context)?;
        let mut changed = Map::new();
        for Item { name, quantity } in args.items {
            let (name, quantity) = (in_cart(&cart, &name).unwrap_or(name), quantity.unwrap_or(1));
            if quantity == 0 {
                return Ok(json!({"error": format!("0 of {name} is too few, 1 is the least")}));
            }
            let quantity = cart.get(&name).map_or(0, count).saturating_add(quantity);
            if quantity > MOST {
                return Ok(json!({"error": format!("we have {MOST} of {name} at most")}));
            }
            changed.insert(name.clone(), quantity.into());
            cart.insert(name, quantity.into());
        }
        // A patch keeps an item that another request adds at the same time.
        context.state().merge_patch("cart", Value::Object(changed))?;
        Ok(json!({"cart": cart}))
    })
}

fn remove_from_cart() -> impl Tool {
    let remove = |args: RemoveArguments, context: ToolContext| async move {
        let mut cart = cart(&context)?;
        if args.items.is_empty() {
            context.state().remove("cart")?;
            return Ok(json!({"cart": {}}));
        }
        let mut missing = Vec::new();
        for Item { name, quantity } in args.items {
            let Some(name) = in_cart(&cart, &name) else {
                missing.push(name);
                continue;
            };
            let left = quantity.map_or(0, |quantity| cart.get(&name).map_or(0, count).saturating_sub(quantity));
            // In a merge patch, null removes the key.
            let left = if left == 0 { Value::Null } else { left.into() };
            context.state().merge_patch("cart", json!({name.as_str(): left}))?;
            if left.is_null() {
                cart.shift_remove(&name);
            } else {
                cart.insert(name, left);
            }
        }
        Ok(json!({"cart": cart, "missing": missing}))
    };
    FunctionTool::new("remove_from_cart", "Removes items from the cart.", remove)
}

fn show_cart() -> impl Tool {
    FunctionTool::new("show_cart", "Shows the cart.", |_: NoArguments, context: ToolContext| async move {
        Ok(json!({"cart": cart(&context)?}))
    })
}

fn remember() -> impl Tool {
    let remember = |args: RememberArguments, context: ToolContext| async move {
        if let Some(name) = &args.name {
            context.state().set("user:name", name)?;
        }
        if let Some(fact) = &args.fact {
            context.state().append("user:facts", fact)?;
        }
        Ok(json!({"name": args.name, "fact": args.fact}))
    };
    FunctionTool::new("remember", "Remembers something about the customer, in every session.", remember)
}

fn recall() -> impl Tool {
    FunctionTool::new(
        "recall",
        "Returns what is known about the customer.",
        |_: NoArguments, context: ToolContext| async move {
            let state = context.state();
            Ok(json!({
                "name": state.get("user:name"),
                "facts": state.get_or("user:facts", json!([])),
                "visits": state.get_or("user:visits", 0),
                "orders": state.get_or("user:orders", 0),
                "orders_of_all": state.get_or("app:orders", 0),
            }))
        },
    )
}

fn save_note() -> impl Tool {
    FunctionTool::new(
        "save_note",
        "Saves a note as an artifact.",
        |args: NoteArguments, context: ToolContext| async move {
            let version = context.save_artifact("note.txt", Part::bytes(args.text, "text/plain")).await?;
            Ok(json!({"filename": "note.txt", "version": version}))
        },
    )
}

/// Returns a long-running tool: the answer comes later, from the shop's owner or from the user at the terminal.
fn ask_for_discount() -> impl Tool {
    let ask = |_: NoArguments, _: ToolContext| async move { Ok(json!({"status": "pending"})) };
    let what = "Asks the owner of the shop for a discount. The answer, a percentage or none, comes later.";
    FunctionTool::new("ask_for_discount", what, ask).long_running()
}

/// Returns a tool that needs confirmation, because forgetting a customer cannot be undone.
fn forget_customer() -> impl Tool {
    let forget = |_: NoArguments, context: ToolContext| async move {
        let state = context.state();
        for key in ["user:name", "user:facts"] {
            state.remove(key)?;
        }
        Ok(json!({"forgotten": true}))
    };
    let what = "Forgets the customer's name and everything remembered about them.";
    FunctionTool::new("forget_customer", what, forget).require_confirmation()
}

fn check_out() -> impl Tool {
    let check_out = |_: NoArguments, context: ToolContext| async move {
        let cart = cart(&context)?;
        if cart.is_empty() {
            return Ok(json!({"error": "the cart is empty"}));
        }
        let lines: Vec<_> = cart.iter().map(|(name, quantity)| format!("{quantity} x {name}\n")).collect();
        let version = context.save_artifact("receipt.txt", Part::bytes(lines.concat(), "text/plain")).await?;
        let state = context.state();
        // Operations make two orders at the same time count as two.
        state.increment("user:orders", 1)?;
        state.increment("app:orders", 1)?;
        state.remove("cart")?;
        Ok(json!({"ordered": cart, "filename": "receipt.txt", "version": version}))
    };
    FunctionTool::new("check_out", "Orders the items in the cart and saves a receipt as an artifact.", check_out)
}

/// Returns the cart: quantities by name.
fn cart(context: &ToolContext) -> Result<Map<String, Value>> {
    Ok(context.state().get_as("cart")?.unwrap_or_default())
}

/// Returns the name under which an item is in the cart, in the singular or with an `s`.
fn in_cart(cart: &Map<String, Value>, name: &str) -> Option<String> {
    let singular = |name: &str| name.trim_end_matches('s').to_lowercase();
    cart.keys().find(|other| singular(other) == singular(name)).cloned()
}

fn count(quantity: &Value) -> u32 {
    quantity.as_u64().and_then(|quantity| u32::try_from(quantity).ok()).unwrap_or(0)
}
