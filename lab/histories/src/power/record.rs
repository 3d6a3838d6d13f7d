//! Records what processes do to the files of a folder, and what they print. `recorder.c` writes the record.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

use tempfile::TempDir;

use crate::faults::FaultError;

/// The length of the part of an entry before its name and data, in bytes.
const HEAD: usize = 24;

/// One operation of a process.
#[derive(Debug)]
pub struct RecordedOperation {
    /// The file; 0 if there is none.
    pub inode: u64,
    /// What was done.
    pub operation: FileOperation,
}

/// What a process did.
#[derive(Debug)]
pub enum FileOperation {
    /// Gives a file a name, usually a new file.
    Create(String),
    /// Removes a name.
    Remove(String),
    /// Gives a file another name, in place of the file that had it.
    Rename(String, String),
    /// Writes to a file.
    Write {
        /// The place, in bytes from the beginning.
        offset: usize,
        /// The bytes.
        data: Vec<u8>,
    },
    /// Makes a file this long.
    Truncate(usize),
    /// Syncs a file.
    Sync,
    /// Syncs the folder.
    SyncFolder,
    /// Prints.
    Print(String),
}

/// The library that records, and the folder of records.
#[derive(Debug)]
pub struct OperationRecorder {
    folder: TempDir,
}

impl OperationRecorder {
    /// Compiles the library with the C compiler that `CC` names, by default `cc`.
    ///
    /// # Errors
    ///
    /// There is no such compiler.
    pub fn compile() -> Result<Self, FaultError> {
        let recorder = Self { folder: tempfile::tempdir()? };
        let source = recorder.folder.path().join("recorder.c");
        fs::write(&source, include_str!("recorder.c"))?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| OsString::from("cc"));
        let mut command = Command::new(&compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-o"]);
        let output = command.arg(recorder.library()).arg(&source).output();
        let output = output.map_err(|error| format!("the C compiler {}: {error}", compiler.display()))?;
        if output.status.success() {
            return Ok(recorder);
        }
        Err(format!("{}: {}", compiler.display(), String::from_utf8_lossy(&output.stderr)).into())
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("recorder.so")
    }

    /// Runs these commands at the same time, until each has ended. Returns what they did in a folder.
    ///
    /// # Errors
    ///
    /// A command fails, or the record cannot be read.
    pub fn run(&self, folder: &Path, commands: Vec<Command>) -> Result<Vec<RecordedOperation>, FaultError> {
        let log = self.folder.path().join("log");
        let folder = fs::canonicalize(folder)?;
        let mut children = Vec::new();
        for mut command in commands {
            command.env("LD_PRELOAD", self.library()).env("SCRATCHBOOK_RECORD", &log);
            command.env("SCRATCHBOOK_RECORDED_FOLDER", &folder).stdin(Stdio::null()).stdout(Stdio::null());
            children.push(command.spawn()?);
        }
        let ended: Vec<_> = children.iter_mut().map(std::process::Child::wait).collect::<io::Result<_>>()?;
        if let Some(status) = ended.iter().find(|status| !status.success()) {
            return Err(format!("a recorded process ended with {status}").into());
        }
        let entries = read(&fs::read(&log)?)?;
        fs::remove_file(&log)?;
        Ok(entries)
    }
}

/// Reads a record.
fn read(mut rest: &[u8]) -> Result<Vec<RecordedOperation>, FaultError> {
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (head, after) = rest.split_at_checked(HEAD).ok_or("the record is cut")?;
        let number = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let name_length = u16::from_ne_bytes([head[2], head[3]]).into();
        let data_length = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (name, after) = after.split_at_checked(name_length).ok_or("the record is cut")?;
        let (data, after) = after.split_at_checked(data_length).ok_or("the record is cut")?;
        let (inode, offset) = (number(8), usize::try_from(number(16))?);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let operation = match head[0] {
            b'C' => FileOperation::Create(text(name)),
            b'U' => FileOperation::Remove(text(name)),
            b'R' => FileOperation::Rename(text(name), text(data)),
            b'W' => FileOperation::Write { offset, data: data.to_vec() },
            b'T' => FileOperation::Truncate(offset),
            b'S' => FileOperation::Sync,
            b'D' => FileOperation::SyncFolder,
            b'A' => FileOperation::Print(text(data)),
            kind => return Err(format!("the record has an operation {kind}").into()),
        };
        entries.push(RecordedOperation { inode, operation });
        rest = after;
    }
    Ok(entries)
}
