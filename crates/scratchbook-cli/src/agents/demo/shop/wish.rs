//! What a message asks for, as far as a script understands it.

use super::items::{Item, Removal, things};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Help,
    Greet,
    Thank,
    Add(Vec<Item>),
    Remove(Vec<Removal>),
    RemoveAll,
    ShowCart,
    CheckOut,
    BeCalled(String),
    Remember(String),
    Recall,
    SaveNote(String),
    Discount,
    Forget,
    /// Less than one of something, to be put in or taken out.
    TooFew,
    /// Nothing that is understood.
    Other,
}

/// How wishes begin, with what is wished for after it. The longer of two beginnings comes first.
const ADD: [&str; 13] = [
    "i would like ",
    "i'd like ",
    "i'll take ",
    "i'll have ",
    "i want ",
    "i need ",
    "can i have ",
    "could i have ",
    "get me ",
    "give me ",
    "add ",
    "buy ",
    "put ",
];
const REMOVE: [&str; 5] = ["remove ", "take out ", "delete ", "drop ", "take away "];
const NAME: [&str; 5] = ["my name is ", "my name's ", "call me ", "i am called ", "i'm called "];
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
/// How other wishes begin, after one that came before them.
const OTHERS: [&str; 13] = [
    "check out",
    "checkout",
    "pay",
    "place ",
    "what ",
    "what's ",
    "who am i",
    "show ",
    "empty ",
    "clear ",
    "how ",
    "forget ",
    "ask ",
];
/// What may come before a wish, and what after it.
const BEFORE: [&str; 15] = [
    "please ",
    "please, ",
    "can you ",
    "could you ",
    "would you ",
    "i want to ",
    "i would like to ",
    "i'd like to ",
    "and ",
    "then ",
    "also ",
    "now ",
    "ok ",
    "ok, ",
    "let me ",
];
const AFTER: [&str; 6] = ["please", "thanks", "thank you", "thanks a lot", "thank you very much", "and"];
/// What is between two wishes, or two things of a list.
const BREAKS: [&str; 5] = [". ", "! ", "; ", ", ", " and "];
/// The longest message that is understood, in bytes, unless it is to be noted or remembered.
const LONGEST: usize = 1000;

impl Wish {
    /// What a message asks for, in order. All of it is understood, or one wish says that it is not.
    pub(super) fn all_of(message: &str) -> Vec<Self> {
        if message.len() > LONGEST && !is_free(without_courtesy(message)) {
            return vec![Self::Other];
        }
        let mut wishes: Vec<_> = clauses(message.trim()).into_iter().map(Self::of).collect();
        if wishes.contains(&Self::TooFew) {
            return vec![Self::TooFew];
        }
        // Small talk after a greeting is no riddle; what is to be done is done in full or not at all.
        if wishes.contains(&Self::Other) && wishes.iter().any(|wish| !wish.is_courtesy() && *wish != Self::Other) {
            return vec![Self::Other];
        }
        // Courtesy counts where it is all there is.
        if wishes.iter().any(|wish| !wish.is_courtesy() && *wish != Self::Other) {
            wishes.retain(|wish| !wish.is_courtesy());
        } else {
            wishes.truncate(1);
        }
        wishes
    }

    fn is_courtesy(&self) -> bool {
        matches!(self, Self::Help | Self::Greet | Self::Thank)
    }

    fn of(clause: &str) -> Self {
        let said = without_courtesy(clause);
        let lower = said.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if let Some(text) = rest(said, &NOTE) {
            return Self::SaveNote(text.to_owned());
        }
        if let Some(name) = rest(said, &NAME) {
            let end = breaks(name).next().map_or(name.len(), |(at, _)| at);
            return Self::BeCalled(without_courtesy(&name[..end]).to_owned());
        }
        if let Some(text) = rest(said, &REMEMBER) {
            return Self::Remember(text.to_owned());
        }
        if has(&[
            "forget me",
            "forget about me",
            "forget everything",
            "forget all",
            "forget what you know",
            "forget my name",
        ]) {
            return Self::Forget;
        }
        if has(&["discount"]) {
            return Self::Discount;
        }
        if let Some(what) = rest(said, &REMOVE) {
            return Self::remove(&what.to_lowercase());
        }
        if let Some(what) = rest(said, &ADD) {
            return match things(what) {
                Ok(things) => Self::Add(things.into_iter().map(Item::from).collect()),
                Err(Self::Other) if has(&["help"]) => Self::Help,
                Err(wish) => wish,
            };
        }
        if has(&["do you know about me", "who am i", "what is my name", "what's my name", "how often", "my visits"])
            || has(&["do you remember", "how many times"])
        {
            return Self::Recall;
        }
        let mut words = lower.split(|c: char| !c.is_alphanumeric());
        if has(&["check out", "checkout", "place my order", "place the order"])
            || words.clone().any(|word| word == "pay")
        {
            return Self::CheckOut;
        }
        if has(&["empty ", "clear "]) && has(&["cart", "basket"]) {
            return Self::RemoveAll;
        }
        match words.next() {
            _ if has(&["help", "what can you do", "what can i say"]) => Self::Help,
            _ if has(&["cart", "basket"]) => Self::ShowCart,
            _ if has(&["thank"]) => Self::Thank,
            Some("hello" | "hi" | "hey" | "good") => Self::Greet,
            _ => Self::Other,
        }
    }

    /// What to take out, where `all` and `every` are said of a thing or of the cart.
    fn remove(what: &str) -> Self {
        let what = ["all of ", "all ", "every ", "each "].iter().find_map(|all| what.strip_prefix(all)).unwrap_or(what);
        let whole =
            what.split([' ', ',']).filter(|word| !matches!(*word, "the" | "my" | "from" | "of" | "in")).all(|word| {
                matches!(
                    word,
                    "" | "all" | "everything" | "it" | "items" | "item" | "things" | "thing" | "cart" | "basket"
                )
            });
        if whole && what != "it" {
            return Self::RemoveAll;
        }
        let what = what.replace(" all ", " ").replace(" every ", " ");
        things(&what).map_or_else(|wish| wish, Self::Remove)
    }
}

/// The parts of a message that each ask for something. What is to be noted or remembered goes on to the end.
fn clauses(message: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    let mut said = without_courtesy(message);
    while !is_free(said) {
        let Some((at, next)) = breaks(said).find(|(at, next)| begins_wish(&said[*next..]) || is_hello(&said[..*at]))
        else {
            break;
        };
        clauses.push(&said[..at]);
        said = without_courtesy(&said[next..]);
    }
    clauses.push(said);
    clauses
}

/// Where the parts of `said` end, and where the next ones begin.
fn breaks(said: &str) -> impl Iterator<Item = (usize, usize)> {
    let title = |at: usize| ["mr", "mrs", "ms", "dr", "st"].iter().any(|title| ends(&said[..at], title));
    said.char_indices().filter_map(move |(at, _)| {
        let between = BREAKS.iter().find(|between| begins(&said[at..], &[between]))?;
        (*between != ". " || !title(at)).then(|| (at, at + between.len()))
    })
}

/// Whether all that follows is to be kept as it is.
fn is_free(said: &str) -> bool {
    begins(said, &NOTE) || begins(said, &REMEMBER)
}

fn begins_wish(said: &str) -> bool {
    let said = without_courtesy(said);
    [&ADD[..], &REMOVE, &NAME, &REMEMBER, &NOTE, &OTHERS].iter().any(|beginnings| begins(said, beginnings))
}

fn is_hello(said: &str) -> bool {
    let first = said.split(' ').next().unwrap_or_default();
    ["hello", "hi", "hey", "good"].iter().any(|hello| first.eq_ignore_ascii_case(hello))
}

/// What comes after a beginning, where there is anything.
fn rest<'a>(said: &'a str, beginnings: &[&str]) -> Option<&'a str> {
    let beginning = beginnings.iter().find(|beginning| begins(said, &[beginning]))?;
    Some(said.get(beginning.len()..)?.trim()).filter(|rest| !rest.is_empty())
}

fn begins(said: &str, beginnings: &[&str]) -> bool {
    beginnings.iter().any(|begin| said.get(..begin.len()).is_some_and(|said| said.eq_ignore_ascii_case(begin)))
}

/// Whether the last words are `end`.
fn ends(said: &str, end: &str) -> bool {
    let at = said.len().checked_sub(end.len());
    at.is_some_and(|at| {
        said.get(at..).is_some_and(|last| last.eq_ignore_ascii_case(end))
            && !said[..at].ends_with(char::is_alphanumeric)
    })
}

/// A wish without what only makes it polite.
fn without_courtesy(clause: &str) -> &str {
    const MARKS: [char; 6] = ['.', '!', '?', ',', ';', ' '];
    let mut said = clause.trim_start_matches(MARKS).trim().trim_end_matches(MARKS);
    while let Some(before) = BEFORE.iter().find(|before| begins(said, &[before])) {
        said = said[before.len()..].trim_start_matches(MARKS);
    }
    // What is nothing but courtesy stays.
    while let Some(after) = AFTER.iter().find(|after| ends(said, after) && said.len() > after.len()) {
        said = said[..said.len() - after.len()].trim_end_matches(MARKS);
    }
    said
}
