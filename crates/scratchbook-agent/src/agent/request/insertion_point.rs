//! Where contents that accompany a request are inserted into the conversation.

use scratchbook_core::content::Content;

/// Before the user's last words, or after the last responses: everything before that stays the same from request to
/// request.
pub(super) fn before_current_turn(contents: &[Content]) -> usize {
    let ends_before =
        |content: &Content| content.role.as_deref() != Some("user") || content.function_responses().next().is_some();
    contents.iter().rposition(ends_before).map_or(0, |place| place + 1)
}
