//! Marks around text in a request, which the text itself cannot forge. The wording is ADK's.

/// A pair of marks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fence {
    pub(super) begin: &'static str,
    pub(super) end: &'static str,
}

/// What stands in the place of a mark in the text.
const ELIDED: &str = "<<<ELIDED_MARKER>>>";

impl Fence {
    /// Around what other agents said and did.
    pub(super) const QUOTE: Self =
        Self { begin: "<<<BEGIN_QUOTED_AGENT_CONTENT>>>", end: "<<<END_QUOTED_AGENT_CONTENT>>>" };

    /// Around an agent's own instruction, where it stands in the conversation.
    pub(super) const INSTRUCTION: Self =
        Self { begin: "<<<BEGIN_SYSTEM_INSTRUCTION>>>", end: "<<<END_SYSTEM_INSTRUCTION>>>" };

    /// The text between the marks.
    pub(super) fn around(self, text: &str) -> String {
        format!("{}\n{}\n{}", self.begin, self.elide(text), self.end)
    }

    /// The text without the marks.
    pub(super) fn elide(self, text: &str) -> String {
        text.replace(self.begin, ELIDED).replace(self.end, ELIDED)
    }
}
