//! Bodies of answers, read no further than an answer may go: nobody's server is to fill the memory.

use reqwest::Response;

use super::client::Call;
use super::retry::Failure;
use scratchbook_core::error::{Error, ErrorKind};

/// How long an answer may be, in bytes.
const LONGEST: usize = 64 << 20;

/// How much of a complaint is read, in bytes.
const LONGEST_COMPLAINT: usize = 64 << 10;

/// What is still to come of an answer at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(LONGEST)
    }
}

impl Room {
    /// Takes room for so many bytes.
    ///
    /// # Errors
    ///
    /// `Unavailable` where there is no more.
    pub(super) fn take(&mut self, call: &Call, bytes: usize) -> Result<(), Error> {
        let Some(left) = self.0.checked_sub(bytes) else {
            let text = format!("the answer of {} is longer than {} MiB", call.provider(), LONGEST >> 20);
            return Err(Error::new(ErrorKind::Unavailable, text));
        };
        self.0 = left;
        Ok(())
    }
}

/// An answer in one piece.
pub(super) async fn whole(call: &Call, mut response: Response) -> Result<Vec<u8>, Failure> {
    let (mut all, mut room) = (Vec::new(), Room::default());
    while let Some(bytes) = response.chunk().await.map_err(|error| call.unreached(error))? {
        room.take(call, bytes.len())?;
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

/// What is said in place of an answer, as far as it comes.
pub(super) async fn complaint(mut response: Response) -> String {
    let mut all = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        let room = LONGEST_COMPLAINT - all.len();
        if bytes.len() >= room {
            all.extend_from_slice(&bytes[..room]);
            break;
        }
        all.extend_from_slice(&bytes);
    }
    String::from_utf8_lossy(&all).into_owned()
}
