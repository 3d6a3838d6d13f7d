//! The model's part: a message becomes a tool call, and what the tool answers becomes words.

use scratchbook::{FunctionResponse, LlmRequest, LlmResponse};
use serde_json::{Map, Value, json};

use super::items::is_plural;
use super::wish::Wish;

const HELP: &str = "\
I keep a cart for you, and I remember you. Say, for example: \"add two apples and a book\", \"remove the book\", \
\"what is in my cart?\", \"my name is Ann\", \"remember that I like tea\", \"what do you know about me?\", \
\"save a note: buy milk\", \"ask for a discount\", \"check out\", or \"forget me\".";

/// What is said to quantities below 1.
const TOO_FEW: &str = "\
Less than one of something is nothing that I can put in or take out, so your cart is as it was. \
Say, for example: \"add two apples\".";

/// What the model answers to a conversation: one tool call for each wish in turn, and in the end what came of them.
pub(in crate::agents::demo) fn answer(request: &LlmRequest) -> LlmResponse {
    let contents = &request.contents;
    let said = contents
        .iter()
        .rposition(|content| content.role.as_deref() == Some("user") && content.function_responses().next().is_none());
    let Some((message, after)) = said.and_then(|at| contents.get(at..)?.split_first()) else { return HELP.into() };
    let responses: Vec<_> = after.iter().flat_map(|content| content.function_responses()).collect();
    let failed = responses.iter().any(|response| has_error(response));
    match Wish::all_of(&message.text()).into_iter().nth(responses.len()) {
        Some(wish) if !failed => next(wish, &Customer::of(request.system_instruction.as_deref().unwrap_or_default())),
        _ => responses.into_iter().map(told).collect::<Vec<_>>().join(" ").into(),
    }
}

fn next(wish: Wish, customer: &Customer<'_>) -> LlmResponse {
    match wish {
        Wish::Help => HELP.into(),
        Wish::Greet => format!("{} {HELP}", customer.greeting()).into(),
        Wish::Thank => format!("You are welcome{}.", customer.comma_name()).into(),
        Wish::Add(items) => LlmResponse::call("add_to_cart", json!({"items": items})),
        Wish::Remove(items) => LlmResponse::call("remove_from_cart", json!({"items": items})),
        Wish::RemoveAll => LlmResponse::call("remove_from_cart", json!({"items": []})),
        Wish::ShowCart => LlmResponse::call("show_cart", json!({})),
        Wish::CheckOut => LlmResponse::call("check_out", json!({})),
        Wish::BeCalled(name) => LlmResponse::call("remember", json!({"name": name})),
        Wish::Remember(fact) => LlmResponse::call("remember", json!({"fact": fact})),
        Wish::Recall => LlmResponse::call("recall", json!({})),
        Wish::SaveNote(text) => LlmResponse::call("save_note", json!({"text": text})),
        Wish::Discount => LlmResponse::call("ask_for_discount", json!({})),
        Wish::Forget => LlmResponse::call("forget_customer", json!({})),
        Wish::TooFew => TOO_FEW.into(),
        Wish::Other => format!("I am only a script, and did not understand that. {HELP}").into(),
    }
}

fn has_error(response: &FunctionResponse) -> bool {
    response.response.as_ref().is_some_and(|answer| answer.contains_key("error"))
}

/// What the instruction says of the customer.
struct Customer<'a> {
    name: &'a str,
    visits: &'a str,
    begins: bool,
}

impl<'a> Customer<'a> {
    fn of(instruction: &'a str) -> Self {
        let line = |begin: &str| instruction.lines().find_map(|line| line.strip_prefix(begin)).unwrap_or_default();
        Self { name: line("Name: "), visits: line("Visits: "), begins: line("Begins: ") == "yes" }
    }

    fn greeting(&self) -> String {
        let name = self.comma_name();
        match self.visits {
            visits if self.begins && !matches!(visits, "" | "1") => {
                format!("Welcome back{name}! This is your visit number {visits}.")
            }
            _ => format!("Hello{name}!"),
        }
    }

    fn comma_name(&self) -> String {
        if self.name.is_empty() { String::new() } else { format!(", {}", self.name) }
    }
}

/// What a tool has answered, in words.
fn told(response: &FunctionResponse) -> String {
    let empty = Map::new();
    let answer = response.response.as_ref().unwrap_or(&empty);
    let text = |key: &str| answer.get(key).and_then(Value::as_str);
    let name = response.name.as_deref().unwrap_or_default();
    if let Some(error) = text("error") {
        return match name {
            // The customer has not agreed.
            "forget_customer" => "Then I keep what I know of you.".to_owned(),
            _ => format!("That did not work: {error}."),
        };
    }
    match name {
        "add_to_cart" => format!("Done. {}", contents(answer.get("cart"))),
        "remove_from_cart" => {
            let missing: Vec<_> = answer.get("missing").and_then(Value::as_array).into_iter().flatten().collect();
            let missing: Vec<_> = missing.into_iter().filter_map(Value::as_str).collect();
            let missing = match missing.as_slice() {
                [] => "Done.".to_owned(),
                [first, ..] => {
                    let were = if is_plural(first) { "were" } else { "was" };
                    format!("There {were} no {}.", missing.join(" and no "))
                }
            };
            format!("{missing} {}", contents(answer.get("cart")))
        }
        "show_cart" => contents(answer.get("cart")),
        "remember" => match (text("name"), text("fact")) {
            (Some(name), _) => format!("Nice to meet you, {name}. I will know you in every session."),
            (None, Some(fact)) => format!("I will remember: {fact}."),
            (None, None) => "There was nothing to remember.".to_owned(),
        },
        "recall" => recalled(answer),
        "save_note" => format!("Saved as note.txt, version {}.", answer.get("version").unwrap_or(&Value::Null)),
        "ask_for_discount" => match (
            ["percent", "discount", "result"].iter().find_map(|name| answer.get(*name)?.as_f64()),
            text("status"),
        ) {
            (Some(percent), _) => format!("You get {percent} % off."),
            (None, Some("pending")) => "I have asked for a discount. The answer will come.".to_owned(),
            (None, _) => "There is no discount today.".to_owned(),
        },
        "forget_customer" => "I have forgotten who you are, and what you told me.".to_owned(),
        "check_out" => format!(
            "Ordered: {}. Your receipt is receipt.txt, version {}.",
            list(answer.get("ordered")),
            answer.get("version").unwrap_or(&Value::Null)
        ),
        _ => "Done.".to_owned(),
    }
}

fn recalled(answer: &Map<String, Value>) -> String {
    let count = |key: &str| answer.get(key).and_then(Value::as_u64).unwrap_or(0);
    let name = answer.get("name").and_then(Value::as_str);
    let name = name.map_or_else(|| "You have not told me your name.".to_owned(), |name| format!("You are {name}."));
    let facts: Vec<_> = answer.get("facts").and_then(Value::as_array).into_iter().flatten().collect();
    let facts: Vec<_> = facts.into_iter().filter_map(Value::as_str).collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" You said: {}.", facts.join("; ")) };
    format!(
        "{name}{facts} Visits: {}. Orders: {}, and {} by all customers.",
        count("visits"),
        count("orders"),
        count("orders_of_all")
    )
}

fn contents(cart: Option<&Value>) -> String {
    match list(cart) {
        list if list.is_empty() => "Your cart is empty.".to_owned(),
        list => format!("In your cart: {list}."),
    }
}

fn list(cart: Option<&Value>) -> String {
    let items = cart.and_then(Value::as_object).into_iter().flatten();
    items.map(|(name, quantity)| format!("{quantity} x {name}")).collect::<Vec<_>>().join(", ")
}
