//! The answer on a connection for which there is no place.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long the client may take to read the answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// The answer has the form of ADK's surface, since the requested path is not known.
const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/json\r\n\
    content-length: 58\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\
    \r\n\
    {\"detail\":\"all connections are in use; try again in 1 s\"}\n";

/// Answers 503 to any request, and closes the connection.
pub(super) async fn refuse(mut stream: TcpStream) {
    let answered = async {
        stream.write_all(ANSWER).await?;
        stream.shutdown().await?;
        // If unread bytes were left, closing the connection would discard the answer.
        let mut unread = [0; 1024];
        while stream.read(&mut unread).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    // A client that does not read the answer in time does not get it.
    let _ = timeout(PATIENCE, answered).await;
}

#[cfg(test)]
mod tests {
    use super::ANSWER;

    #[test]
    fn the_answer_is_as_long_as_it_says() {
        let text = std::str::from_utf8(ANSWER).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
    }
}
