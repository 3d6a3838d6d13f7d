//! Markers around text in a request, which the text itself cannot forge. The wording is ADK's.

/// A pair of markers.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextMarkers {
    pub(super) begin: &'static str,
    pub(super) end: &'static str,
}

/// Replaces a marker that occurs in the text.
const ELIDED: &str = "<<<ELIDED_MARKER>>>";

impl TextMarkers {
    /// Around the words and actions of other agents.
    pub(super) const QUOTE: Self =
        Self { begin: "<<<BEGIN_QUOTED_AGENT_CONTENT>>>", end: "<<<END_QUOTED_AGENT_CONTENT>>>" };

    /// Around an agent's own instruction inside the conversation.
    pub(super) const INSTRUCTION: Self =
        Self { begin: "<<<BEGIN_SYSTEM_INSTRUCTION>>>", end: "<<<END_SYSTEM_INSTRUCTION>>>" };

    /// The text between the markers.
    pub(super) fn around(self, text: &str) -> String {
        format!("{}\n{}\n{}", self.begin, self.elide(text), self.end)
    }

    /// The text with any markers replaced.
    pub(super) fn elide(self, text: &str) -> String {
        text.replace(self.begin, ELIDED).replace(self.end, ELIDED)
    }
}
