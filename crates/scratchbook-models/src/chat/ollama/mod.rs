//! Models that Ollama runs, locally or in its cloud. They are called without genai. For Ollama, genai supports neither
//! schemas of answers nor the names of tools in responses, and takes an interrupted stream for a complete one.

mod read;
mod request;

use reqwest::{Response, Url};
use serde_json::Value;

pub(super) use read::{read, usage};
pub(super) use request::body as request_body;

use crate::body;
use crate::body::SizeLimit;
use crate::client::ModelCall;
use crate::retry::FailedAttempt;
use scratchbook_core::error::{Error, Result};

/// Ollama's address on this machine, unless another address is set.
const LOCAL: &str = "http://localhost:11434/";
/// The address of Ollama's cloud.
const CLOUD: &str = "https://ollama.com/";

/// Sends the request, and returns an answer that is not streamed.
pub(super) async fn whole(call: &ModelCall, asked: &Value) -> Result<Value, FailedAttempt> {
    let response = send(call, asked).await?;
    let text = body::whole(call, response).await?;
    Ok(scratchbook_core::json::from_slice(&text).map_err(|error| call.unreadable(&error.to_string()))?)
}

/// Sends the request, and returns the answer, which arrives as lines.
pub(super) async fn lines(call: &ModelCall, asked: &Value) -> Result<Lines, FailedAttempt> {
    Ok(Lines { response: send(call, asked).await?, buffer: Vec::new(), searched: 0, limit: SizeLimit::default() })
}

async fn send(call: &ModelCall, asked: &Value) -> Result<Response, FailedAttempt> {
    let mut request = call.http.post(url(call)?).json(asked);
    if let Some(key) = &call.key {
        request = request.bearer_auth(key.as_str());
    }
    let response = request.send().await.map_err(|error| call.unreached(error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let headers = response.headers().clone();
    Err(call.refused(status, &headers, &body::complaint(response).await))
}

fn url(call: &ModelCall) -> Result<Url> {
    let own = if call.target.provider == genai::adapter::AdapterKind::OllamaCloud { CLOUD } else { LOCAL };
    let base = call.endpoint.as_ref().map_or(own, Url::as_str);
    let url = Url::parse(base).and_then(|base| base.join("api/chat"));
    url.map_err(|error| Error::invalid("an endpoint is an address such as 'http://localhost:11434'").with_source(error))
}

/// An answer that arrives line by line.
pub(super) struct Lines {
    response: Response,
    buffer: Vec<u8>,
    /// The length of the buffer's beginning that is known to contain no line break.
    searched: usize,
    limit: SizeLimit,
}

impl Lines {
    /// Returns the next complete lines; `None` at the end.
    pub(super) async fn next(&mut self, call: &ModelCall) -> Result<Option<Vec<String>>, FailedAttempt> {
        loop {
            match self.response.chunk().await.map_err(|error| call.unreached(error))? {
                Some(bytes) => {
                    self.limit.take(call, bytes.len())?;
                    self.buffer.extend_from_slice(&bytes);
                }
                None if self.buffer.is_empty() => return Ok(None),
                // The last line may lack its line end.
                None => return text(call, std::mem::take(&mut self.buffer)).map(Some),
            }
            let end = self.buffer[self.searched..].iter().rposition(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end + 1) else {
                self.searched = self.buffer.len();
                continue;
            };
            let rest = self.buffer.split_off(end);
            let lines = std::mem::replace(&mut self.buffer, rest);
            self.searched = self.buffer.len();
            return text(call, lines).map(Some);
        }
    }
}

fn text(call: &ModelCall, bytes: Vec<u8>) -> Result<Vec<String>, FailedAttempt> {
    let text = String::from_utf8(bytes).map_err(|_| call.unreadable("what is no UTF-8"))?;
    Ok(text.lines().map(str::to_owned).collect())
}
