//! The frames of a streamed answer, each with one JSON text: server-sent events, or lines. Some servers send one JSON
//! text in place of events, so a line that is not a field of an event is read as data.

use std::borrow::Cow;

use reqwest::Response;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::body::SizeLimit;
use super::client::ModelCall;
use super::retry::FailedAttempt;
use scratchbook_core::error::Result;

/// The frame that ends a stream of OpenAI's protocols. It is the only one that is not JSON.
pub(super) const DONE: &str = "[DONE]";

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How a stream is divided into frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameFormat {
    ServerSentEvents,
    Lines,
}

/// The frames of a response.
pub(super) struct Frames {
    response: Response,
    splitter: FrameSplitter,
    limit: SizeLimit,
    /// Half of a character, which the next frame completes.
    half: String,
}

impl Frames {
    pub(super) fn new(response: Response, format: FrameFormat) -> Self {
        let splitter = FrameSplitter::new(format);
        Self { response, splitter, limit: SizeLimit::default(), half: String::new() }
    }

    /// Returns the next frame; `None` at the end.
    pub(super) async fn next(&mut self, call: &ModelCall) -> Result<Option<Value>, FailedAttempt> {
        loop {
            if let Some(frame) = self.splitter.next() {
                if !frame.trim_ascii().is_empty() {
                    return Ok(Some(self.read(call, &frame)?));
                }
                continue;
            }
            if let Some(bytes) = self.response.chunk().await.map_err(|error| call.unreached(error))? {
                self.limit.take(call, bytes.len())?;
                self.splitter.push(&bytes);
                continue;
            }
            let Some(rest) = self.splitter.rest().filter(|rest| !rest.trim_ascii().is_empty()) else {
                return Ok(None);
            };
            return match self.read(call, &rest) {
                // A stream that ends within a frame was interrupted. This is not reported as a malformed frame.
                Err(_) if rest.starts_with(b"{") || rest.starts_with(b"[") => Err(call.broken_off().into()),
                frame => Ok(Some(frame?)),
            };
        }
    }

    fn read(&mut self, call: &ModelCall, frame: &[u8]) -> Result<Value> {
        if frame.trim_ascii() == DONE.as_bytes() {
            return Ok(DONE.into());
        }
        read_json(call, frame, &mut self.half)
    }
}

/// Reads a JSON text from a provider.
///
/// An escape for half of a character, a surrogate, is no JSON. At the end of a string, it moves into `half` and completes
/// the half at the beginning of a string in the next text, because servers cut answers between two halves. Any other
/// half becomes U+FFFD. Numbers that would not survive are marked.
pub(super) fn read_json(call: &ModelCall, text: &[u8], half: &mut String) -> Result<Value> {
    let text = std::str::from_utf8(text).map_err(|_| call.unreadable("what is no UTF-8"))?;
    let whole = with_whole_characters(text, half);
    scratchbook_core::json::read_marked(&whole).map_err(|error| call.unreadable(&error.to_string()))
}

fn with_whole_characters<'a>(text: &'a str, half: &mut String) -> Cow<'a, str> {
    if !["\\ud", "\\uD"].iter().any(|escape| text.contains(escape)) {
        return Cow::Borrowed(text);
    }
    // The number of the UTF-16 code unit that is escaped here.
    let unit_at = |at: usize| {
        let digits = text.get(at..at + 6).and_then(|escape| escape.strip_prefix("\\u"));
        digits.and_then(|digits| u16::from_str_radix(digits, 16).ok())
    };
    let is_low = |unit: Option<u16>| unit.is_some_and(|unit| (0xdc00..0xe000).contains(&unit));
    let (mut whole, mut copied, mut at) = (String::with_capacity(text.len()), 0, 0);
    while let Some(found) = text[at..].find('\\') {
        at += found;
        let unit = unit_at(at);
        let end = at + if unit.is_some() { 6 } else { 2 };
        let is_high = unit.is_some_and(|unit| (0xd800..0xdc00).contains(&unit));
        if is_high && is_low(unit_at(end)) {
            at = end + 6;
            continue;
        }
        if is_high || is_low(unit) {
            whole.push_str(&text[copied..at]);
            copied = end;
            if is_high && text[end..].starts_with('"') {
                text[at..end].clone_into(half);
            } else if !is_high && !half.is_empty() && whole.ends_with('"') {
                whole.extend([half.as_str(), &text[at..end]]);
                half.clear();
            } else {
                whole.push('\u{fffd}');
            }
        }
        // What follows a backslash at the end, or outside of ASCII, is no JSON, which its reader reports.
        at = end;
        if !text.is_char_boundary(at) {
            return Cow::Borrowed(text);
        }
    }
    whole.push_str(&text[copied..]);
    Cow::Owned(whole)
}

/// Splits a stream of bytes into frames. Lines end with LF or CR LF.
#[derive(Debug)]
struct FrameSplitter {
    format: FrameFormat,
    /// Whether the beginning of the stream, which may be a byte order mark, was read.
    begun: bool,
    buffer: Vec<u8>,
    /// How much of the buffer has been consumed.
    taken: usize,
    /// How much of the buffer is known to contain no end of a line.
    searched: usize,
    /// The lines of the current event.
    data: Vec<u8>,
    /// Whether `data` is one line.
    is_one_line: bool,
}

impl FrameSplitter {
    fn new(format: FrameFormat) -> Self {
        let (buffer, data) = (Vec::new(), Vec::new());
        Self { format, begun: false, buffer, taken: 0, searched: 0, data, is_one_line: false }
    }

    /// Adds bytes of the stream.
    fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete frame.
    fn next(&mut self) -> Option<Vec<u8>> {
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
    fn rest(&mut self) -> Option<Vec<u8>> {
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
        let line = if self.begun { line } else { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) };
        self.begun = true;
        if self.format == FrameFormat::Lines {
            return Some(line.to_owned());
        }
        if line.is_empty() {
            return self.take_data();
        }
        if [&b":"[..], b"event:", b"id:", b"retry:"].iter().any(|field| line.starts_with(field)) {
            return None;
        }
        let data = line.strip_prefix(b"data:").map_or(line, |data| data.strip_prefix(b" ").unwrap_or(data));
        // Some servers leave out the empty line between events. Only the first line of an event is examined, so that
        // the work is linear.
        if self.is_one_line && is_whole(&self.data) {
            return Some(std::mem::replace(&mut self.data, data.to_owned()));
        }
        self.is_one_line = self.data.is_empty();
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

fn is_whole(frame: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(frame).is_ok()
}
