//! Models of the Gemini API.

use super::client::Call;
use super::failed;
use crate::error::Error;
use crate::model::{LlmRequest, LlmStream};

pub(super) fn generate(_call: Call, _request: LlmRequest) -> LlmStream {
    failed(Error::internal("not yet"))
}
