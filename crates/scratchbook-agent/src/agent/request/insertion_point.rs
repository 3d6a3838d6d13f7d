//! Finds the place in the conversation at which further contents of a request are inserted.

use scratchbook_core::content::Content;

/// Returns the place before the user's last words or after the last responses. The contents before this place stay the
/// same from request to request.
pub(super) fn before_current_turn(contents: &[Content]) -> usize {
    let ends_before =
        |content: &Content| content.role.as_deref() != Some("user") || content.function_responses().next().is_some();
    contents.iter().rposition(ends_before).map_or(0, |place| place + 1)
}
