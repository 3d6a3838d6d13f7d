//! What a message asks for, as far as a script understands it.

use serde::{Deserialize, Serialize};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Help,
    Greet,
    Thank,
    Add(Vec<Item>),
    Remove(Vec<String>),
    RemoveAll,
    ShowCart,
    CheckOut,
    BeCalled(String),
    Remember(String),
    Recall,
    SaveNote(String),
    /// Nothing that is understood.
    Other,
}

/// So many of something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) quantity: u32,
}

/// How wishes begin, with what is wished for after it. The longer of two beginnings comes first.
const ADD: [&str; 11] = [
    "i would like to buy ",
    "i would like ",
    "i'd like ",
    "i'll take ",
    "i want to buy ",
    "i want ",
    "i need ",
    "get me ",
    "add ",
    "buy ",
    "put ",
];
const REMOVE: [&str; 4] = ["remove ", "take out ", "delete ", "drop "];
const NAME: [&str; 4] = ["my name is ", "call me ", "i am called ", "i'm called "];
const REMEMBER: [&str; 4] = ["remember that ", "remember: ", "remember ", "keep in mind that "];
const NOTE: [&str; 7] = [
    "save a note that says ",
    "save a note: ",
    "save a note ",
    "save note: ",
    "make a note: ",
    "write down ",
    "note: ",
];

impl Wish {
    /// What a message asks for.
    pub(super) fn of(message: &str) -> Self {
        let said = message.trim().trim_end_matches(['.', '!', '?']).trim_end();
        let said = without_please(said);
        // Beginnings are ASCII, so that what comes after them is at the same place in both.
        let lower = said.to_ascii_lowercase();
        let after = |beginnings: &[&str]| rest(said, &lower, beginnings);
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if let Some(text) = after(&NOTE) {
            return Self::SaveNote(text.to_owned());
        }
        if let Some(name) = after(&NAME) {
            return Self::BeCalled(name.to_owned());
        }
        if has(&["do you know about me", "who am i", "what is my name", "what's my name", "how often", "my visits"])
            || has(&["do you remember", "how many times"])
        {
            return Self::Recall;
        }
        if let Some(text) = after(&REMEMBER) {
            return Self::Remember(text.to_owned());
        }
        if has(&["check out", "checkout", "place my order", "place the order", "pay"]) {
            return Self::CheckOut;
        }
        if has(&["empty ", "clear "]) && has(&["cart", "basket"]) || lower == "remove everything" {
            return Self::RemoveAll;
        }
        if let Some(what) = after(&REMOVE) {
            return Self::Remove(items(what).into_iter().map(|item| item.name).collect());
        }
        if let Some(what) = after(&ADD) {
            return Self::Add(items(what));
        }
        match lower.split(|c: char| !c.is_ascii_alphanumeric()).next() {
            _ if has(&["help", "what can you do", "what can i say"]) => Self::Help,
            _ if has(&["cart", "basket"]) => Self::ShowCart,
            _ if has(&["thank"]) => Self::Thank,
            Some("hello" | "hi" | "hey" | "good") => Self::Greet,
            _ => Self::Other,
        }
    }
}

/// What comes after a beginning, where there is anything.
fn rest<'a>(said: &'a str, lower: &str, beginnings: &[&str]) -> Option<&'a str> {
    let beginning = beginnings.iter().find(|beginning| lower.starts_with(**beginning))?;
    Some(said.get(beginning.len()..)?.trim()).filter(|rest| !rest.is_empty())
}

fn without_please(said: &str) -> &str {
    let mut said = said;
    for word in ["please", "can you", "could you"] {
        if said.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word)) {
            said = said[word.len()..].trim_start_matches([',', ' ']);
        }
    }
    match said.len().checked_sub("please".len()) {
        Some(at) if said.get(at..).is_some_and(|end| end.eq_ignore_ascii_case("please")) => {
            said[..at].trim_end_matches([',', ' '])
        }
        _ => said,
    }
}

/// The things of a list such as `two apples, milk and a book to my cart`.
fn items(list: &str) -> Vec<Item> {
    let list = list.to_lowercase();
    let mut list = list.as_str();
    for place in [" to my ", " to the ", " in my ", " in the ", " into my ", " into the ", " from my ", " from the "] {
        if let Some((what, place)) = list.rsplit_once(place)
            && matches!(place, "cart" | "basket" | "shopping cart")
        {
            list = what;
        }
    }
    list.split(',').flat_map(|part| part.split(" and ")).filter_map(item).collect()
}

fn item(text: &str) -> Option<Item> {
    let mut name = text.trim().trim_start_matches("and ").trim_start();
    let mut quantity = 1;
    if let Some((first, rest)) = name.split_once(' ') {
        let counted = count(first);
        if counted.is_some() || matches!(first, "the" | "some" | "my" | "more") {
            quantity = counted.unwrap_or(1);
            name = rest.trim();
        }
    }
    (!name.is_empty()).then(|| Item { name: name.to_owned(), quantity })
}

/// A number, in digits or as a word.
fn count(word: &str) -> Option<u32> {
    const WORDS: [&str; 13] =
        ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    match word {
        "a" | "an" | "another" => Some(1),
        _ => word.parse().ok().or_else(|| (0..).zip(WORDS).find(|(_, name)| *name == word).map(|(number, _)| number)),
    }
}
