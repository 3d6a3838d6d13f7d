//! The messages of a process, one on each line.

use std::io;
use std::sync::Arc;

use futures_util::{Sink, Stream, sink, stream};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

use crate::inbound::Inbound;

/// Reads messages. Ends when the server ends or exceeds a limit.
pub(crate) fn read(
    output: impl AsyncRead + Send + Unpin + 'static,
    inbound: Arc<Inbound>,
) -> impl Stream<Item = ServerJsonRpcMessage> + Send + Unpin + 'static {
    Box::pin(stream::unfold((BufReader::new(output), inbound), async |(mut output, inbound)| {
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\n") {
                let piece = output.fill_buf().await.ok().filter(|piece| !piece.is_empty())?;
                let length = piece.iter().position(|byte| *byte == b'\n').map_or(piece.len(), |end| end + 1);
                line.extend_from_slice(&piece[..length]);
                output.consume(length);
                if !inbound.count(length, line.len()) {
                    return None;
                }
            }
            // What is no message, such as a line of a log, is skipped.
            let Ok(text) = String::from_utf8(line) else { continue };
            let text = inbound.readable(text);
            match serde_json::from_str(&text) {
                Ok(message) => return Some((message, (output, inbound))),
                Err(_) => tracing::debug!("a line of an MCP server is skipped, because it is no message"),
            }
        }
    }))
}

/// Writes messages.
pub(crate) fn write(
    input: impl AsyncWrite + Send + Unpin + 'static,
) -> impl Sink<ClientJsonRpcMessage, Error = io::Error> + Send + Unpin + 'static {
    Box::pin(sink::unfold(input, async |mut input, message| {
        let mut line = serde_json::to_vec(&message)?;
        line.push(b'\n');
        input.write_all(&line).await?;
        input.flush().await?;
        Ok(input)
    }))
}
