//! What a server sends in a session: counted against the limits, and made readable without changing a number.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{ContentBlock, ServerJsonRpcMessage};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::limits::McpLimits;
use scratchbook_core::error::Error;
use scratchbook_core::json::from_str;

/// The limit that a server has exceeded. Nothing more is read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InboundFault {
    Message,
    Notifications,
}

/// Counts the bytes of a session, over all its streams.
#[derive(Debug)]
pub(crate) struct Inbound {
    limits: McpLimits,
    /// The bytes since the server has last answered a request.
    unanswered: AtomicUsize,
    fault: watch::Sender<Option<InboundFault>>,
}

impl Inbound {
    pub(crate) fn new(limits: McpLimits) -> Self {
        Self { limits, unanswered: AtomicUsize::new(0), fault: watch::Sender::new(None) }
    }

    pub(crate) fn fault(&self) -> Option<InboundFault> {
        *self.fault.borrow()
    }

    /// Waits until the server exceeds a limit.
    pub(crate) async fn exceeded(&self) -> Option<InboundFault> {
        // The sender lives as long as `self`, so waiting cannot fail.
        self.fault.subscribe().wait_for(Option::is_some).await.ok().and_then(|fault| *fault)
    }

    /// Counts bytes that have come, and the length of the message to which they belong. Returns whether the server may
    /// send more.
    pub(crate) fn count(&self, bytes: usize, message: usize) -> bool {
        // Before it is read, an answer counts like a notification.
        let most = self.limits.notification_bytes.saturating_add(self.limits.message_bytes);
        let unanswered = self.unanswered.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if message > self.limits.message_bytes {
            self.fault.send_replace(Some(InboundFault::Message));
        } else if unanswered > most {
            self.fault.send_replace(Some(InboundFault::Notifications));
        }
        self.fault().is_none()
    }

    /// Returns a message in a form that `rmcp` reads as it was meant. `rmcp` turns integers beyond 64 bits into floats,
    /// drops a whole result for one content of an unknown type, and drops an answer that it cannot read, for which the
    /// call would then wait in vain.
    pub(crate) fn readable(&self, text: String) -> String {
        let text = match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        };
        let mut message: Value = match from_str(&text) {
            Ok(message) => message,
            Err(error) => return self.refusal(&text, &error).unwrap_or(text),
        };
        if message.get("method").is_some() || message.get("id").is_none() {
            return text;
        }
        self.unanswered.store(0, Ordering::Relaxed);
        let mut is_changed = false;
        if let Some(Value::Array(contents)) = message.pointer_mut("/result/content") {
            for content in contents {
                if ContentBlock::deserialize(&*content).is_err() {
                    *content = json!({"type": "text", "text": content.to_string()});
                    is_changed = true;
                }
            }
        }
        if ServerJsonRpcMessage::deserialize(&message).is_err() {
            return failure(&message["id"], "the server's answer is not one of JSON-RPC 2.0");
        }
        if is_changed { message.to_string() } else { text }
    }

    /// Returns the error that takes the place of an answer with a number that would be changed. `None` for other
    /// messages, and for lists of tools: a schema may name a bound beyond 64 bits, which is rounded.
    fn refusal(&self, text: &str, error: &Error) -> Option<String> {
        #[derive(Deserialize)]
        struct Answer {
            id: Value,
            method: Option<IgnoredAny>,
            result: Option<HashMap<String, IgnoredAny>>,
        }
        let answer: Answer = serde_json::from_str(text).ok().filter(|answer: &Answer| answer.method.is_none())?;
        self.unanswered.store(0, Ordering::Relaxed);
        let is_list = answer.result.is_some_and(|result| result.contains_key("tools"));
        (!is_list).then(|| failure(&answer.id, &format!("the tool's result is refused: {error}")))
    }
}

fn failure(id: &Value, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": message}}).to_string()
}
