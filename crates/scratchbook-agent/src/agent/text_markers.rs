//! Puts markers around text in a request. The text itself cannot contain them. The wording is ADK's.

/// A pair of markers.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextMarkers {
    pub(super) begin: &'static str,
    pub(super) end: &'static str,
}

/// The text that replaces a marker inside the text.
const ELIDED: &str = "<<<ELIDED_MARKER>>>";

impl TextMarkers {
    /// Markers around the words and actions of other agents.
    pub(super) const QUOTE: Self =
        Self { begin: "<<<BEGIN_QUOTED_AGENT_CONTENT>>>", end: "<<<END_QUOTED_AGENT_CONTENT>>>" };

    /// Markers around an agent's own instruction inside the conversation.
    pub(super) const INSTRUCTION: Self =
        Self { begin: "<<<BEGIN_SYSTEM_INSTRUCTION>>>", end: "<<<END_SYSTEM_INSTRUCTION>>>" };

    /// Puts the text between the markers.
    pub(super) fn around(self, text: &str) -> String {
        format!("{}\n{}\n{}", self.begin, self.elide(text), self.end)
    }

    /// Replaces all markers in the text.
    pub(super) fn elide(self, text: &str) -> String {
        text.replace(self.begin, ELIDED).replace(self.end, ELIDED)
    }
}
