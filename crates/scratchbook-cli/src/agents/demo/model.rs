//! A model that needs no network: a function computes each answer, and a streaming request gets it word by word.

use std::fmt;
use std::time::Duration;

use async_stream::stream;
use scratchbook::Content;
use scratchbook::content::Part;
use scratchbook::model::{Llm, LlmRequest, LlmResponse, LlmStream};
use tokio::time::sleep;

/// The pause between two words of a streamed answer.
const PACE: Duration = Duration::from_millis(15);

/// Computes the answer to a conversation.
pub(super) type Script = fn(&LlmRequest) -> LlmResponse;

/// A model that answers by a script. Unlike `ScriptedLlm`, it keeps no requests, because a server runs for a long time.
#[derive(Clone, Copy)]
pub(super) struct DemoModel(pub(super) Script);

impl Llm for DemoModel {
    fn name(&self) -> &'static str {
        "demo-script"
    }

    fn generate(&self, request: LlmRequest) -> LlmStream {
        let answer = (self.0)(&request);
        Box::pin(stream! {
            if request.stream {
                let text = answer.content.as_ref().map(Content::text).unwrap_or_default();
                for word in text.split_inclusive(' ') {
                    let content = Some(Content::new("model", vec![Part::text(word)]));
                    yield Ok(LlmResponse { content, partial: Some(true), ..LlmResponse::default() });
                    sleep(PACE).await;
                }
            }
            yield Ok(answer);
        })
    }
}

impl fmt::Debug for DemoModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DemoModel")
    }
}
