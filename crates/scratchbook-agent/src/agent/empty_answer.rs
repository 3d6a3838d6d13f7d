//! Reports a model's empty answer as an error, as ADK does.

use crate::model::LlmResponse;
use crate::runner::RunConfig;
use scratchbook_core::content::{Content, Part};

const CODE: &str = "MODEL_RETURNED_NO_CONTENT";
const NO_PARTS: &str = "The model returned no content (finish_reason=STOP with empty parts).";
const NO_ANSWER: &str = "The model returned no actionable content (finish_reason=STOP with thought-only or \
                         whitespace-only parts).";

/// Marks a response as failed if it is complete but has no usable content. The last response of a stream may have no
/// parts.
pub(super) fn mark_empty(response: &mut LlmResponse, config: &RunConfig) {
    let has_parts = response.content.as_ref().is_some_and(|content| !content.parts().is_empty());
    let is_whole = response.partial != Some(true)
        && response.error_code.is_none()
        && response.finish_reason.as_deref() == Some("STOP");
    let is_answer = response.content.iter().flat_map(Content::parts).any(is_meaningful);
    if !is_whole || is_answer || (config.streaming && !has_parts) {
        return;
    }
    response.error_code = Some(CODE.to_owned());
    response.error_message.get_or_insert_with(|| if has_parts { NO_ANSWER } else { NO_PARTS }.to_owned());
}

/// Returns whether a part can be acted on or shown.
fn is_meaningful(part: &Part) -> bool {
    let is_said =
        part.thought != Some(true) && part.text.as_deref().is_some_and(|text| !text.chars().all(char::is_whitespace));
    is_said
        || part.function_call.is_some()
        || part.function_response.is_some()
        || part.executable_code.is_some()
        || part.code_execution_result.is_some()
        || part.inline_data.is_some()
        || part.file_data.is_some()
}
