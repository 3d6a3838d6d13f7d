//! Compresses large values, events and artifacts before they reach a store.

use super::codec::{Codec, Coded, Encoded, Location};
use scratchbook_core::error::{Error, Result};

/// The default size from which JSON is compressed, in bytes.
const ABOVE: usize = 4 << 10;
/// The compression level: fast, with almost the smallest possible result.
const LEVEL: i32 = 3;
/// The largest decompressed size that is accepted. No limit allows this layer to write more.
const MOST_BYTES: u64 = 1 << 30;

/// A layer that compresses values, events and artifacts from 4 KiB on with zstd, if that makes them smaller.
///
/// Smaller data is stored unchanged, and existing data stays readable. This layer executes operations itself: a write
/// with operations reads first, and is retried if another writer was faster. The limits of the store apply to
/// compressed data, and the limits of [`with_limits`](Self::with_limits) to the original.
///
/// To combine compression with encryption, let compression wrap encryption:
/// `WithCompression::new(WithEncryption::new(store, keys))`. The length of encrypted data reveals a little about its
/// contents. The length of data that was compressed before reveals a little more. Do not compress if somebody who can
/// see the sizes in the database can also choose a part of the encrypted data.
///
/// ```
/// use scratchbook::prelude::*;
/// use scratchbook::layer::WithCompression;
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
    /// Compresses data of 4 KiB and more that is written to a service for sessions or artifacts.
    #[must_use]
    pub fn new(service: S) -> Self {
        Self::above(service, ABOVE)
    }

    /// Compresses from this many bytes of JSON on.
    #[must_use]
    pub fn above(service: S, bytes: usize) -> Self {
        Self::around(service, Compression { above: bytes })
    }
}

/// The encoding, with the size from which on data is compressed.
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

    fn encode(&self, plain: &[u8], _: &Location<'_>, _: &[u8]) -> Result<Encoded> {
        let compressed = zstd::bulk::compress(plain, LEVEL);
        let compressed = compressed.map_err(|e| Error::internal("a value cannot be compressed").with_source(e))?;
        let mut body = (plain.len() as u64).to_le_bytes().to_vec();
        body.extend(compressed);
        Ok(Encoded { header: "1".to_owned(), body })
    }

    fn decode(&self, encoded: &Encoded, location: &Location<'_>) -> Result<Vec<u8>> {
        let damaged = || Error::corrupted(format!("{location} cannot be decompressed; restore it from a backup"));
        let (length, compressed) = encoded.body.split_first_chunk::<8>().ok_or_else(damaged)?;
        let length = u64::from_le_bytes(*length);
        if encoded.header != "1" || length > MOST_BYTES {
            return Err(damaged());
        }
        let plain = zstd::bulk::decompress(compressed, length as usize).map_err(|_| damaged())?;
        if plain.len() as u64 == length { Ok(plain) } else { Err(damaged()) }
    }

    fn check_plain(&self, _: &Location<'_>) -> Result<()> {
        Ok(())
    }
}
