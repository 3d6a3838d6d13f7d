//! Values, events and artifacts above a size compressed before a store sees them.

use super::codec::{Codec, Coded, Encoded, Place};
use scratchbook_core::error::{Error, Result};

/// From how many bytes of JSON on something is compressed, unless it is said otherwise.
const ABOVE: usize = 4 << 10;
/// Fast, and nearly as small as it gets.
const LEVEL: i32 = 3;
/// What is said to become larger than this was not made here: no limit allows it.
const MOST_BYTES: u64 = 1 << 30;

/// A service behind which values, events and artifacts above 4 KiB are compressed with zstd, where that makes them smaller.
///
/// What is smaller is stored as it is, and what is there already is read as it is. Operations are carried out here and not
/// in the store: such a write reads first, and is tried again where others were faster. The limits of the store hold for
/// what is compressed, and those of [`with_limits`](Self::with_limits) for what is given.
///
/// With encryption, compress outside of it: `WithCompression::new(WithEncryption::new(store, keys))`. How long something
/// is tells a little of what is in it, and of compressed things a little more: leave it out where somebody who sees the
/// sizes in the database can also choose a part of what is sealed.
///
/// ```
/// use scratchbook::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let store = std::sync::Arc::new(InMemorySessionService::new());
/// let sessions = WithCompression::new(store.clone());
/// let app = StateOwner::app("library")?;
/// let book = "All work and no play makes Jack a dull boy. ".repeat(1000);
/// sessions.put_state(&app, StateDelta::new().with("book", &book)?, "me".into()).await?;
///
/// assert_eq!(sessions.get_state(&app).await?["book"], book);
/// assert!(store.get_state(&app).await?["book"].as_str().unwrap().len() < 300);
/// # Ok(()) }
/// ```
pub type WithCompression<S> = Coded<S, Compression>;

impl<S> Coded<S, Compression> {
    /// Compresses what a service, for sessions or artifacts, is given, from 4 KiB on.
    #[must_use]
    pub fn new(service: S) -> Self {
        Self::above(service, ABOVE)
    }

    /// Compresses from so many bytes of JSON on.
    #[must_use]
    pub fn above(service: S, bytes: usize) -> Self {
        Self::around(service, Compression { above: bytes })
    }
}

/// From which size on, as an encoding.
#[derive(Debug)]
pub struct Compression {
    above: usize,
}

impl Codec for Compression {
    const MARK: &'static str = "scratchbook:zstd:";
    const FIELD: &'static str = "scratchbookZstd";
    const MIME_TYPE: &'static str = "application/vnd.scratchbook.zstd";
    const OF_METADATA: bool = false;
    const BINDS: bool = false;

    fn wants(&self, bytes: usize) -> bool {
        bytes >= self.above
    }

    fn keeps(&self, given: usize, encoded: usize) -> bool {
        encoded < given
    }

    fn encode(&self, plain: &[u8], _: &Place<'_>, _: &[u8]) -> Result<Encoded> {
        let compressed = zstd::bulk::compress(plain, LEVEL);
        let compressed = compressed.map_err(|e| Error::internal("a value cannot be compressed").with_source(e))?;
        let mut body = (plain.len() as u64).to_le_bytes().to_vec();
        body.extend(compressed);
        Ok(Encoded { header: "1".to_owned(), body })
    }

    fn decode(&self, encoded: &Encoded, place: &Place<'_>) -> Result<Vec<u8>> {
        let damaged = || Error::corrupted(format!("{place} cannot be decompressed; restore it from a backup"));
        let (length, compressed) = encoded.body.split_first_chunk::<8>().ok_or_else(damaged)?;
        let length = u64::from_le_bytes(*length);
        if encoded.header != "1" || length > MOST_BYTES {
            return Err(damaged());
        }
        let plain = zstd::bulk::decompress(compressed, length as usize).map_err(|_| damaged())?;
        if plain.len() as u64 == length { Ok(plain) } else { Err(damaged()) }
    }

    fn check_plain(&self, _: &Place<'_>) -> Result<()> {
        Ok(())
    }
}
