//! Reads response bodies up to a limit, so that no server can exhaust memory.

use reqwest::Response;

use super::client::ModelCall;
use super::retry::FailedAttempt;
use scratchbook_core::error::{Error, ErrorKind};

/// The maximum length of an answer, in bytes.
const LONGEST: usize = 64 << 20;

/// How much of an error response is read, in bytes.
const LONGEST_COMPLAINT: usize = 64 << 10;

/// How many bytes of an answer may still be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeLimit(usize);

impl Default for SizeLimit {
    fn default() -> Self {
        Self(LONGEST)
    }
}

impl SizeLimit {
    /// Subtracts a number of bytes.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the limit is exceeded.
    pub(super) fn take(&mut self, call: &ModelCall, bytes: usize) -> Result<(), Error> {
        let Some(left) = self.0.checked_sub(bytes) else {
            let text = format!("the answer of {} is longer than {} MiB", call.provider(), LONGEST >> 20);
            return Err(Error::new(ErrorKind::Unavailable, text));
        };
        self.0 = left;
        Ok(())
    }
}

/// Reads a body that is not streamed.
pub(super) async fn whole(call: &ModelCall, mut response: Response) -> Result<Vec<u8>, FailedAttempt> {
    let (mut all, mut limit) = (Vec::new(), SizeLimit::default());
    while let Some(bytes) = response.chunk().await.map_err(|error| call.unreached(error))? {
        limit.take(call, bytes.len())?;
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

/// Reads the body of an error response, up to the limit for such responses.
pub(super) async fn complaint(mut response: Response) -> String {
    let mut all = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        let limit = LONGEST_COMPLAINT - all.len();
        if bytes.len() >= limit {
            all.extend_from_slice(&bytes[..limit]);
            break;
        }
        all.extend_from_slice(&bytes);
    }
    String::from_utf8_lossy(&all).into_owned()
}
