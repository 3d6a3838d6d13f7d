//! A model that needs no network. A function computes each answer, and a streaming request receives the answer word by
//! word.

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
pub(super) type DemoScript = fn(&LlmRequest) -> LlmResponse;

/// A model that answers by a script. Unlike `ScriptedLlm`, it keeps no requests, because a server runs for a long time.
#[derive(Clone, Copy)]
pub(super) struct DemoModel {
    name: &'static str,
    script: DemoScript,
}

impl DemoModel {
    /// Creates the model of a built-in agent, which files cannot name.
    pub(super) fn new(script: DemoScript) -> Self {
        Self::named("demo-script", script)
    }

    /// Creates a model that files can name.
    pub(super) fn named(name: &'static str, script: DemoScript) -> Self {
        Self { name, script }
    }
}

impl Llm for DemoModel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn generate(&self, request: LlmRequest) -> LlmStream {
        let answer = (self.script)(&request);
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
