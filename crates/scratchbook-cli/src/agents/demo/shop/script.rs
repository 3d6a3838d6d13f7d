//! Answers in the model's place: turns a request into a tool call, and the tool's response into a sentence.

use scratchbook::content::FunctionResponse;
use scratchbook::model::{LlmRequest, LlmResponse};
use serde_json::{Map, Value, json};

use super::request::ShopRequest;

const HELP: &str = "\
I keep a cart for you, and I remember you. Say, for example: \"add two apples and a book\", \"remove the book\", \
\"what is in my cart?\", \"my name is Ann\", \"remember that I like tea\", \"what do you know about me?\", \
\"save a note: buy milk\", \"ask for a discount\", \"check out\", or \"forget me\".";

/// Answers the last message of the user: with a tool call, or, if the tool has responded, with its response in words.
pub(in super::super) fn answer(request: &LlmRequest) -> LlmResponse {
    let contents = &request.contents;
    let message = contents
        .iter()
        .rposition(|content| content.role.as_deref() == Some("user") && content.function_responses().next().is_none());
    let Some((message, after)) = message.and_then(|at| contents.get(at..)?.split_first()) else { return HELP.into() };
    match after.iter().flat_map(|content| content.function_responses()).last() {
        Some(response) => in_words(response).into(),
        None => {
            let customer = Customer::read(request.system_instruction.as_deref().unwrap_or_default());
            begin(ShopRequest::parse(&message.text()), &customer)
        }
    }
}

fn begin(request: ShopRequest, customer: &Customer<'_>) -> LlmResponse {
    match request {
        ShopRequest::Help => HELP.into(),
        ShopRequest::Greet => format!("{} {HELP}", customer.greeting()).into(),
        ShopRequest::Thank => format!("You are welcome{}.", customer.comma_name()).into(),
        ShopRequest::Add(items) => {
            let items: Vec<_> = items
                .into_iter()
                .map(|item| json!({"name": item.name, "quantity": item.quantity.unwrap_or(1)}))
                .collect();
            LlmResponse::call("add_to_cart", json!({"items": items}))
        }
        ShopRequest::Remove(items) => LlmResponse::call("remove_from_cart", json!({"items": items})),
        ShopRequest::ShowCart => LlmResponse::call("show_cart", json!({})),
        ShopRequest::CheckOut => LlmResponse::call("check_out", json!({})),
        ShopRequest::SetName(name) => LlmResponse::call("remember", json!({"name": name})),
        ShopRequest::Remember(fact) => LlmResponse::call("remember", json!({"fact": fact})),
        ShopRequest::Recall => LlmResponse::call("recall", json!({})),
        ShopRequest::SaveNote(text) => LlmResponse::call("save_note", json!({"text": text})),
        ShopRequest::AskForDiscount => LlmResponse::call("ask_for_discount", json!({})),
        ShopRequest::ForgetCustomer => LlmResponse::call("forget_customer", json!({})),
        ShopRequest::Unknown => format!("I am only a script, and did not understand that. {HELP}").into(),
    }
}

/// The customer, as the instruction describes them.
struct Customer<'a> {
    name: &'a str,
    visits: &'a str,
    begins: bool,
}

impl<'a> Customer<'a> {
    fn read(instruction: &'a str) -> Self {
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

/// Returns a tool's response in words.
fn in_words(response: &FunctionResponse) -> String {
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
            let missing = answer.get("missing").and_then(Value::as_array).into_iter().flatten();
            let missing: Vec<_> = missing.filter_map(Value::as_str).collect();
            let done = if missing.is_empty() {
                "Done.".to_owned()
            } else {
                format!("Not in your cart: {}.", missing.join(", "))
            };
            format!("{done} {}", contents(answer.get("cart")))
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
