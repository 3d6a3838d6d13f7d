//! The file of a seal: JSON Lines that hold numbers, ids and hashes, and no text of an event or value.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use scratchbook::session::FeedCursor;
use scratchbook::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::export::{create_new, not_written};
use crate::failure::CommandFailure;

/// The version of the format.
pub(crate) const VERSION: u32 = 1;

/// The place of each app's feed.
pub(crate) type Places = BTreeMap<String, FeedCursor>;

/// The first line.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Head {
    pub(crate) seal: u32,
    /// The name of the database.
    pub(crate) database: String,
    /// The place from which this seal goes on; `None` if it is of everything that is stored.
    pub(crate) from: Option<Places>,
    /// Everything up to this place is sealed. What was committed while the seal was written may be sealed, too.
    pub(crate) to: Places,
    /// The hash of the seal that this one continues.
    pub(crate) previous: Option<String>,
}

/// Any other line.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line {
    /// App, user, session, number and id of an event, and the hash of its text as it is stored.
    Event(String, String, String, u64, String, String),
    /// App, user and session (`null` for the state of an app or a user), the key without prefix, its version, and the
    /// hash of its value. The version of a session's key is the number of the event that wrote it.
    State(String, Option<String>, Option<String>, String, u64, String),
    /// The last line: the hash of all lines before it.
    Sha256(String),
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a seal to a new file.
pub(crate) struct SealWriter {
    file: BufWriter<File>,
    name: String,
    hash: Sha256,
    pub(crate) events: u64,
    pub(crate) states: u64,
}

impl SealWriter {
    pub(crate) fn create(path: &Path) -> Result<Self, CommandFailure> {
        let file = BufWriter::new(create_new(path)?);
        Ok(Self { file, name: path.display().to_string(), hash: Sha256::new(), events: 0, states: 0 })
    }

    pub(crate) fn write(&mut self, line: &impl Serialize) -> Result<(), CommandFailure> {
        let mut text = serde_json::to_vec(line).map_err(|e| Error::internal("a line of a seal").with_source(e))?;
        text.push(b'\n');
        self.hash.update(&text);
        self.file.write_all(&text).map_err(|e| not_written(&self.name, e))
    }

    /// Writes the last line, and makes the file durable.
    pub(crate) fn end(mut self) -> Result<(u64, u64), CommandFailure> {
        let hash = hex(&self.hash.clone().finalize());
        self.write(&Line::Sha256(hash))?;
        let done = self.file.flush().and_then(|()| self.file.get_ref().sync_all());
        done.map_err(|e| not_written(&self.name, e))?;
        Ok((self.events, self.states))
    }
}

/// Reads a seal line by line.
pub(crate) struct SealReader {
    file: BufReader<File>,
    name: String,
    hash: Sha256,
    pub(crate) head: Head,
}

impl SealReader {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|e| {
            let kind = match e.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
                _ => ErrorKind::Unavailable,
            };
            Error::new(kind, format!("the seal {name} cannot be read")).with_source(e)
        })?;
        let mut file = BufReader::new(file);
        let mut hash = Sha256::new();
        let text = next_line(&mut file, &name)?;
        hash.update(&text);
        let head: Head = serde_json::from_slice(&text).map_err(|e| {
            Error::invalid(format!("{name} is not a seal: 'scratchbook seal --to FILE' writes one: {e}"))
        })?;
        if head.seal != VERSION {
            let message = format!("the seal {name} has version {}, and this build reads {VERSION}", head.seal);
            return Err(Error::new(ErrorKind::FailedPrecondition, message));
        }
        Ok(Self { file, name, hash, head })
    }

    /// Returns the next line. Returns the hash of the whole seal as `Line::Sha256` at its end.
    pub(crate) fn next(&mut self) -> Result<Line, Error> {
        let text = next_line(&mut self.file, &self.name)?;
        let line: Line = serde_json::from_slice(&text)
            .map_err(|e| self.damaged(&format!("it has a line that is none of a seal: {e}")))?;
        let Line::Sha256(hash) = &line else {
            self.hash.update(&text);
            return Ok(line);
        };
        if *hash != hex(&self.hash.clone().finalize()) {
            return Err(self.damaged("the hash in its last line is not that of the lines before it"));
        }
        Ok(line)
    }

    /// Reads the whole seal, and returns its hash.
    pub(crate) fn check(path: &Path) -> Result<(Head, String), Error> {
        let mut reader = Self::open(path)?;
        loop {
            if let Line::Sha256(hash) = reader.next()? {
                return Ok((reader.head, hash));
            }
        }
    }

    fn damaged(&self, what: &str) -> Error {
        Error::corrupted(format!("the seal {} was changed: {what}", self.name))
    }
}

fn next_line(file: &mut BufReader<File>, name: &str) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    let read = file.read_until(b'\n', &mut text);
    read.map_err(|e| Error::new(ErrorKind::Unavailable, format!("the seal {name} cannot be read")).with_source(e))?;
    if text.last() != Some(&b'\n') {
        return Err(Error::corrupted(format!("the seal {name} was cut: its last line is missing")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head { seal: VERSION, database: "d".into(), from: None, to: Places::new(), previous: None }
    }

    fn event() -> Line {
        Line::Event("shop".into(), "alice".into(), "s".into(), 1, "e1".into(), "00".into())
    }

    #[test]
    fn a_seal_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let mut writer = SealWriter::create(&path).unwrap();
        writer.write(&head()).unwrap();
        writer.write(&event()).unwrap();
        writer.end().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("{\"event\":[\"shop\",\"alice\",\"s\",1,\"e1\",\"00\"]}\n{\"sha256\":\""), "{text}");
        let mut reader = SealReader::open(&path).unwrap();
        assert_eq!(reader.next().unwrap(), event());
        assert!(matches!(reader.next().unwrap(), Line::Sha256(_)));
        assert!(SealWriter::create(&path).is_err(), "an existing file is not written over");
    }

    #[test]
    fn a_seal_that_was_changed_or_cut_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let mut writer = SealWriter::create(&path).unwrap();
        writer.write(&head()).unwrap();
        writer.write(&event()).unwrap();
        writer.end().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let without_event: String =
            text.lines().filter(|line| !line.contains("event")).map(|l| format!("{l}\n")).collect();
        let end = text.find("{\"sha256").unwrap();
        for changed in
            [text.replace("e1", "e2"), without_event, text[..end].to_owned(), text[..text.len() - 1].to_owned()]
        {
            std::fs::write(&path, &changed).unwrap();
            let error = SealReader::check(&path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
        }
        std::fs::write(&path, "no seal\n").unwrap();
        assert_eq!(SealReader::check(&path).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
