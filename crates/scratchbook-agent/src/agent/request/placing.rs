//! Where in a conversation there is room for what comes with a request and is not part of it.

use scratchbook_core::content::Content;

/// Before what the user said last, or after the answers that the model goes on from: what comes before it stays the same
/// from request to request.
pub(super) fn of_current_turn(contents: &[Content]) -> usize {
    let ends_before =
        |content: &Content| content.role.as_deref() != Some("user") || content.function_responses().next().is_some();
    contents.iter().rposition(ends_before).map_or(0, |place| place + 1)
}
