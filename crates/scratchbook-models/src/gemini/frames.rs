//! Server-sent events of the Gemini API, each with one JSON text. An error in the middle of a stream may be plain JSON,
//! so a line that is not a field of an event is read as data.

/// Splits a stream of bytes into the data of its events. Lines end with LF or CR LF.
#[derive(Debug, Default)]
pub(super) struct SseFrames {
    buffer: Vec<u8>,
    /// How much of the buffer has been consumed.
    taken: usize,
    /// How much of the buffer is known to contain no end of a line.
    searched: usize,
    /// The lines of the current event.
    data: Vec<u8>,
}

impl SseFrames {
    /// Adds bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete event.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        while let Some(found) = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n') {
            let end = self.searched + found;
            let frame = self.line(self.taken, end);
            self.taken = end + 1;
            self.searched = self.taken;
            if frame.is_some() {
                return frame;
            }
        }
        self.searched = self.buffer.len();
        None
    }

    /// Returns the rest after the end of the stream.
    pub(super) fn rest(&mut self) -> Option<Vec<u8>> {
        let end = self.buffer.len();
        let frame = self.line(self.taken, end);
        self.taken = end;
        self.searched = end;
        frame.or_else(|| self.take_data())
    }

    /// Reads a line. An empty line ends an event.
    fn line(&mut self, from: usize, to: usize) -> Option<Vec<u8>> {
        let line = &self.buffer[from..to];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return self.take_data();
        }
        if [&b":"[..], b"event:", b"id:", b"retry:"].iter().any(|field| line.starts_with(field)) {
            return None;
        }
        let data = line.strip_prefix(b"data:").map_or(line, |data| data.strip_prefix(b" ").unwrap_or(data));
        if !self.data.is_empty() {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(data);
        None
    }

    fn take_data(&mut self) -> Option<Vec<u8>> {
        (!self.data.is_empty()).then(|| std::mem::take(&mut self.data))
    }
}
