//! The requests that a customer can make to the script, one in each message.

use serde::{Deserialize, Serialize};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShopRequest {
    Help,
    Greet,
    Thank,
    Add(Vec<Item>),
    /// Removes everything if no items are named.
    Remove(Vec<Item>),
    ShowCart,
    CheckOut,
    SetName(String),
    Remember(String),
    Recall,
    SaveNote(String),
    AskForDiscount,
    ForgetCustomer,
    Unknown,
}

/// An item to put into the cart or to take out of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub(super) struct Item {
    pub(super) name: String,
    /// The quantity, at least 1. Without a quantity, one item is added, or all of them are removed.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quantity: Option<u32>,
}

const NUMBERS: [&str; 10] = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

impl ShopRequest {
    pub(super) fn parse(message: &str) -> Self {
        let text = message.trim_end_matches([' ', '.', '!', '?']);
        let text = text.strip_suffix("please").unwrap_or(text).trim_matches([' ', ',', '\n']);
        let after = |prefix: &str| {
            let (start, rest) = text.split_at_checked(prefix.len())?;
            (start.eq_ignore_ascii_case(prefix) && !rest.trim().is_empty()).then(|| rest.trim().to_owned())
        };
        match text.to_lowercase().as_str() {
            "help" | "what can you do" => return Self::Help,
            "hello" | "hi" => return Self::Greet,
            "thanks" | "thank you" => return Self::Thank,
            "remove everything" => return Self::Remove(Vec::new()),
            "what is in my cart" | "show my cart" => return Self::ShowCart,
            "check out" => return Self::CheckOut,
            "who am i" | "what do you know about me" => return Self::Recall,
            "ask for a discount" => return Self::AskForDiscount,
            "forget me" => return Self::ForgetCustomer,
            _ => {}
        }
        let add = || after("add ").and_then(|list| items(&list)).map(Self::Add);
        let remove = || after("remove ").and_then(|list| items(&list)).map(Self::Remove);
        let request = add().or_else(remove).or_else(|| after("my name is ").map(Self::SetName));
        let request = request.or_else(|| after("remember that ").map(Self::Remember));
        request.or_else(|| after("save a note: ").map(Self::SaveNote)).unwrap_or(Self::Unknown)
    }
}

/// Reads a list such as `two apples, milk and a book`.
fn items(list: &str) -> Option<Vec<Item>> {
    let list = list.to_lowercase().replace(',', " and ");
    list.split(" and ").map(str::trim).filter(|text| !text.is_empty()).map(item).collect()
}

fn item(text: &str) -> Option<Item> {
    let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
    let quantity = match first {
        "a" | "an" => Some(1),
        number => number.parse().ok().or_else(|| NUMBERS.iter().zip(1..).find(|(name, _)| **name == number)?.1.into()),
    };
    let name = if quantity.is_some() { rest } else { text.strip_prefix("the ").unwrap_or(text) };
    name.starts_with(char::is_alphabetic).then(|| Item { name: name.to_owned(), quantity })
}
