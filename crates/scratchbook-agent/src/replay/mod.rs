//! Replays recordings of ADK's conformance tests: models answer as recorded, and requests must equal the recorded
//! requests.
//!
//! - `recordings.rs`: the files. `comparison.rs`: compares the requests of a run with recorded ones. `schema.rs`: JSON
//!   Schemas, reduced to what is compared. `python.rs`: values as Python writes them. `parts.rs`: models and tools that
//!   follow a recording.

mod comparison;
mod parts;
mod python;
mod recordings;
mod schema;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::runner::{RunOverride, RunOverrides};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::session::Session;

use parts::Replay;
use recordings::Recordings;

/// The state key with which `adk conformance test` asks for a replay.
const KEY: &str = "_adk_replay_config";

/// The maximum bytes of a file of recordings.
const FILE_BYTES: u64 = 16 << 20;

/// A folder with test cases of `adk conformance`. Runs may replay their recordings.
///
/// A run replays a recording if the state has the key `_adk_replay_config` with the folder of a test case, as `adk
/// conformance test` sets it. Only the files `generated-recordings.yaml` and `generated-recordings-sse.yaml` of a test
/// case are read, and only if they are in this folder. A link to a file outside of it is refused.
#[derive(Clone, Debug)]
pub struct ReplayFolder {
    root: PathBuf,
}

impl ReplayFolder {
    /// Opens a folder.
    ///
    /// # Errors
    ///
    /// `NotFound` if it does not exist or is not a folder.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let root = folder.canonicalize().ok().filter(|root| root.is_dir());
        let missing = || Error::not_found(format!("there is no folder {} with test cases", folder.display()));
        Ok(Self { root: root.ok_or_else(missing)? })
    }

    fn read(&self, config: &ReplayConfig) -> Result<Recordings> {
        let name = match config.streaming_mode.as_deref() {
            Some("sse") => "generated-recordings-sse.yaml",
            Some("none") => "generated-recordings.yaml",
            _ => return Err(Error::invalid(format!("the 'streaming_mode' of {KEY} is not 'sse' or 'none'"))),
        };
        // The error does not reveal which files exist elsewhere.
        let outside = || {
            let message = format!("the test case of {KEY} is not in the folder whose recordings this server replays");
            Error::new(ErrorKind::PermissionDenied, message)
        };
        let path = Path::new(&config.dir).join(name).canonicalize().map_err(|_| outside())?;
        if !path.starts_with(&self.root) {
            return Err(outside());
        }
        let unreadable = |error: std::io::Error| {
            Error::new(ErrorKind::Unavailable, format!("{} cannot be read: {error}", path.display())).for_operator()
        };
        let mut text = String::new();
        let file = File::open(&path).map_err(unreadable)?;
        file.take(FILE_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > FILE_BYTES {
            return Err(Error::invalid(format!("the recordings of a test case have more than {FILE_BYTES} bytes")));
        }
        Recordings::parse(&text)
    }
}

impl RunOverrides for ReplayFolder {
    fn of_run(&self, session: &Session) -> Result<Option<Arc<dyn RunOverride>>> {
        let Some(config) = session.state().get(KEY).filter(|config| !config.is_null()) else {
            return Ok(None);
        };
        let config = ReplayConfig::parse(config)?;
        let recordings = self.read(&config)?;
        Ok(Some(Arc::new(Replay::new(recordings.of_message(config.user_message_index)))))
    }
}

/// The recording that a run has to replay.
#[derive(Deserialize)]
struct ReplayConfig {
    dir: String,
    user_message_index: u64,
    streaming_mode: Option<String>,
}

impl ReplayConfig {
    fn parse(config: &Value) -> Result<Self> {
        Self::deserialize(config).map_err(|_| {
            Error::invalid(format!("the state key {KEY} needs 'dir', 'user_message_index' and 'streaming_mode'"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(folder: &Path, name: &str) -> PathBuf {
        let case = folder.join(name);
        std::fs::create_dir_all(&case).unwrap();
        std::fs::write(case.join("generated-recordings.yaml"), "recordings: []\n").unwrap();
        case
    }

    fn config(dir: &Path) -> ReplayConfig {
        let dir = dir.to_string_lossy().into_owned();
        ReplayConfig { dir, user_message_index: 0, streaming_mode: Some("none".to_owned()) }
    }

    #[test]
    fn only_recordings_in_the_folder_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let inside = case(folder.path(), "cases/a");
        let outside = case(folder.path(), "elsewhere");
        let replays = ReplayFolder::open(folder.path().join("cases")).unwrap();
        assert!(replays.read(&config(&inside)).is_ok());
        let dotted = inside.join("../../elsewhere");
        let missing = inside.join("missing");
        for dir in [&outside, &dotted, &missing] {
            let error = replays.read(&config(dir)).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
            assert!(!error.to_string().contains("elsewhere"), "{error}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&outside, folder.path().join("cases/link")).unwrap();
            let error = replays.read(&config(&folder.path().join("cases/link"))).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        }
        assert!(ReplayFolder::open(folder.path().join("missing")).is_err());
    }
}
