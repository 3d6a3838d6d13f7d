//! What Anthropic's models support, by their names.

/// The family and version of a model, such as `opus` and 4.5 for `claude-opus-4-5-20251101`.
#[derive(Debug)]
pub(super) struct Claude<'a> {
    family: &'a str,
    version: Option<(u32, u32)>,
}

impl<'a> Claude<'a> {
    pub(super) fn new(model: &'a str) -> Self {
        let name = model.split_once("claude-").map_or("", |(_, name)| name);
        let words = name.split(['-', '@', ':', '.']);
        let family = words.clone().find(|word| word.starts_with(|c: char| c.is_ascii_alphabetic())).unwrap_or_default();
        // Longer numbers are dates.
        let mut numbers = words.filter(|word| word.len() <= 2).filter_map(|word| word.parse().ok());
        let version = numbers.next().map(|major| (major, numbers.next().unwrap_or(0)));
        Self { family, version }
    }

    fn is_since(&self, version: (u32, u32)) -> bool {
        self.version.is_some_and(|own| own >= version)
    }

    fn is_newest(&self) -> bool {
        matches!(self.family, "fable" | "mythos") || self.is_since((5, 0))
    }

    /// Returns the longest answer, in tokens, which has to be requested explicitly.
    pub(super) fn max_tokens(&self) -> u32 {
        match (self.family, self.version) {
            ("fable" | "mythos", _) => 128_000,
            ("opus", Some((4, 8..) | (5.., _))) | ("haiku", Some((5.., _))) => 128_000,
            ("opus", Some((4, 0..=4))) => 32_000,
            (_, Some((3, 5 | 6))) => 8192,
            (_, Some((..=3, 0..=4))) => 4096,
            _ => 64_000,
        }
    }

    /// Returns whether the answer can be held to a schema.
    pub(super) fn takes_schema(&self) -> bool {
        self.version.is_none() || self.is_since((4, 1))
    }

    /// Returns whether the model takes a level of effort instead of a number of tokens for its thoughts.
    pub(super) fn takes_effort(&self) -> bool {
        self.is_newest()
            || (self.family == "opus" && self.is_since((4, 5)))
            || (self.family == "sonnet" && self.is_since((4, 6)))
    }

    /// Returns whether the model decides itself how much it thinks.
    pub(super) fn adapts_thinking(&self) -> bool {
        self.is_newest() || (matches!(self.family, "opus" | "sonnet") && self.is_since((4, 6)))
    }
}
