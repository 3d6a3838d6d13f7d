//! The things that a message names, how many of them, and which of them are the same.

use serde::{Deserialize, Serialize};

use super::wish::Wish;

/// So many of something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub(super) struct Item {
    pub(super) name: String,
    /// How many, one or more.
    #[schemars(range(min = 1))]
    pub(super) quantity: u32,
}

/// Something to take out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub(super) struct Removal {
    pub(super) name: String,
    /// How many, one or more; all of them, if it is not said.
    #[schemars(range(min = 1))]
    pub(super) quantity: Option<u32>,
}

impl From<Removal> for Item {
    /// One, if it is not said how many.
    fn from(Removal { name, quantity }: Removal) -> Self {
        Self { name, quantity: quantity.unwrap_or(1) }
    }
}

/// Numbers as words. What is 0 is refused by name.
const NUMBERS: [(&str, i64); 34] = [
    ("no", 0),
    ("zero", 0),
    ("nothing", 0),
    ("minus", 0),
    ("a", 1),
    ("an", 1),
    ("another", 1),
    ("one", 1),
    ("two", 2),
    ("three", 3),
    ("four", 4),
    ("five", 5),
    ("six", 6),
    ("seven", 7),
    ("eight", 8),
    ("nine", 9),
    ("ten", 10),
    ("eleven", 11),
    ("twelve", 12),
    ("thirteen", 13),
    ("fourteen", 14),
    ("fifteen", 15),
    ("sixteen", 16),
    ("seventeen", 17),
    ("eighteen", 18),
    ("nineteen", 19),
    ("twenty", 20),
    ("thirty", 30),
    ("forty", 40),
    ("fifty", 50),
    ("sixty", 60),
    ("seventy", 70),
    ("eighty", 80),
    ("ninety", 90),
];
/// What a number before them is so many of.
const UNITS: [(&str, i64); 5] = [("dozen", 12), ("dozens", 12), ("hundred", 100), ("thousand", 1000), ("couple", 2)];
/// Words before a thing that say nothing of it.
const FILLERS: [&str; 13] =
    ["the", "some", "my", "your", "more", "extra", "additional", "other", "of", "also", "then", "x", "times"];
/// Words that a thing is not called by: where one is said, more is meant than a list of things.
const NOT_IN_NAMES: [&str; 54] = [
    "i",
    "i'm",
    "i'd",
    "you",
    "he",
    "she",
    "it",
    "we",
    "they",
    "me",
    "him",
    "her",
    "us",
    "them",
    "my",
    "your",
    "this",
    "these",
    "those",
    "that",
    "is",
    "are",
    "am",
    "was",
    "were",
    "be",
    "to",
    "do",
    "does",
    "don't",
    "not",
    "can",
    "if",
    "but",
    "because",
    "who",
    "what",
    "which",
    "how",
    "why",
    "when",
    "where",
    "all",
    "every",
    "each",
    "everything",
    "anything",
    "something",
    "few",
    "many",
    "several",
    "lots",
    "half",
    "help",
];
/// The most words of a name.
const LONGEST_NAME: usize = 5;

/// What `list` names, such as `two apples, milk and a book to my cart`, if each part of it is understood.
///
/// # Errors
///
/// What to make of it otherwise: [`Wish::TooFew`] for a quantity below 1, [`Wish::Other`] where a part is no thing.
pub(super) fn things(list: &str) -> Result<Vec<Removal>, Wish> {
    let list = list.to_lowercase().replace('’', "'").replace('−', "-").replace("half a dozen ", "6 ");
    let parts = list.split([';', ',', '!']).flat_map(|part| part.split(". ")).flat_map(|part| part.split(" and "));
    let parts = parts.map(|part| part.split_whitespace().filter(|word| !is_polite(word)).collect::<Vec<_>>());
    let things = parts.filter(|words| !matches!(words.as_slice(), [] | ["and"])).map(|words| thing(&words));
    let things = things.collect::<Result<Vec<_>, _>>()?;
    if things.is_empty() { Err(Wish::Other) } else { Ok(things) }
}

/// Whether a word only makes a list more polite.
fn is_polite(word: &str) -> bool {
    matches!(word, "please" | "thanks" | "kindly" | "too")
}

fn thing(words: &[&str]) -> Result<Removal, Wish> {
    let mut words = without_place(words);
    let mut quantity: Option<i64> = None;
    if let [front @ .., last] = words
        && let Some(number) = last.strip_prefix('x').and_then(|number| number.parse().ok())
    {
        (words, quantity) = (front, Some(number));
    }
    while let [first, rest @ ..] = words {
        let unit = UNITS.iter().find(|(name, _)| name == first).map(|(_, unit)| *unit);
        match (unit, count(first)?) {
            (Some(unit), _) => quantity = Some(quantity.unwrap_or(1).saturating_mul(unit)),
            (None, Some(_)) if quantity.is_some_and(|quantity| quantity > 0) => return Err(Wish::Other),
            (None, Some(number)) => quantity = quantity.or(Some(number)),
            (None, None) if FILLERS.contains(first) || *first == "and" => {}
            (None, None) => break,
        }
        words = rest;
    }
    if quantity.is_some_and(|quantity| quantity < 1) {
        return Err(Wish::TooFew);
    }
    if words.is_empty() || words.len() > LONGEST_NAME || words.iter().any(|word| NOT_IN_NAMES.contains(word)) {
        return Err(Wish::Other);
    }
    // More than the shop has, which says so.
    let quantity = quantity.map(|quantity| u32::try_from(quantity).unwrap_or(u32::MAX));
    Ok(Removal { name: words.join(" "), quantity })
}

/// A thing without where it goes, or comes from.
fn without_place<'a>(words: &'a [&'a str]) -> &'a [&'a str] {
    let ([front @ .., "shopping", "cart" | "basket"] | [front @ .., "cart" | "basket"]) = words else { return words };
    let words = front;
    let words = if let [front @ .., "my" | "the" | "your"] = words { front } else { words };
    if let [front @ .., "to" | "in" | "into" | "from" | "of"] = words { front } else { words }
}

/// A number, in digits or as a word, as in `2`, `2x` and `two`; none for what begins as a name does.
fn count(word: &str) -> Result<Option<i64>, Wish> {
    if let Some((_, number)) = NUMBERS.iter().find(|(name, _)| *name == word) {
        return Ok(Some(*number));
    }
    let number = word.trim_end_matches(['x', '×']);
    let digits = number.trim_start_matches(['-', '+']);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        // Such as `twenty-five`.
        let begins = word.split_once('-').is_some_and(|(begin, _)| NUMBERS.iter().any(|(name, _)| *name == begin));
        return if begins { Err(Wish::Other) } else { Ok(None) };
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let much = if number.starts_with('-') { i64::MIN } else { i64::MAX };
        return Ok(Some(number.parse().unwrap_or(much)));
    }
    match number.parse::<f64>() {
        Ok(number) if number < 1.0 => Err(Wish::TooFew),
        _ => Err(Wish::Other),
    }
}

/// Whether two names are of the same thing, be it said of one or of several.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let words = |name: &str| name.split_whitespace().map(stem).collect::<Vec<_>>();
    words(one) == words(other)
}

/// What a word and its plural share: `box` of `boxes`, `berri` of `berry`, `knif` of `knives`.
fn stem(word: &str) -> String {
    let word = word.to_lowercase();
    let one = if is_plural(&word) { &word[..word.len() - 1] } else { &word };
    let one = match one.strip_suffix('e') {
        Some(stem) if ["s", "x", "z", "ch", "sh", "o", "i", "v", "f"].iter().any(|end| stem.ends_with(end)) => stem,
        _ => one,
    };
    match (one.strip_suffix('y'), one.strip_suffix('v')) {
        (Some(stem), _) => format!("{stem}i"),
        (_, Some(stem)) => format!("{stem}f"),
        _ => one.to_owned(),
    }
}

/// Whether a name is of several things, as far as its end shows.
pub(super) fn is_plural(name: &str) -> bool {
    let head = name.split(" of ").next().unwrap_or(name);
    head.len() > 2 && head.ends_with('s') && !head.ends_with("ss") && !head.ends_with("us")
}
