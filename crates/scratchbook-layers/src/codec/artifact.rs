//! Encodes artifacts, and the metadata stored with them.

use async_trait::async_trait;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::text::{Encoded, marked, unreadable};
use super::{Codec, Coded, Location};
use scratchbook_core::artifact::{ArtifactService, ArtifactVersion, ListVersionsConfig, forward_artifacts};
use scratchbook_core::content::Part;
use scratchbook_core::error::Result;
use scratchbook_core::json;
use scratchbook_core::plan::artifact::prepare_artifact;
use scratchbook_core::session::SessionKey;

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: ArtifactService, C: Codec> ArtifactService for Coded<S, C> {
    forward_artifacts!(self.service => list_artifacts, delete_artifact);

    async fn save_artifact(
        &self,
        session: &SessionKey,
        filename: &str,
        artifact: Part,
        custom_metadata: Map<String, Value>,
    ) -> Result<u64> {
        let prepared = prepare_artifact(session, filename, artifact, custom_metadata, &self.limits)?;
        let (part, metadata) = match self.encode_part(session, filename, &prepared.artifact)? {
            None => ((*prepared.artifact).clone(), prepared.custom_metadata),
            Some(part) => {
                (part, self.encode_metadata(session, filename, prepared.mime_type, prepared.custom_metadata)?)
            }
        };
        self.service.save_artifact(session, filename, part, metadata).await
    }

    async fn load_artifact(&self, session: &SessionKey, filename: &str, version: Option<u64>) -> Result<Option<Part>> {
        let loaded = self.service.load_artifact(session, filename, version).await?;
        loaded.map(|part| self.decode_part(session, filename, part)).transpose()
    }

    async fn list_artifact_versions(
        &self,
        session: &SessionKey,
        filename: &str,
        config: &ListVersionsConfig,
    ) -> Result<Vec<ArtifactVersion>> {
        // The encoded metadata also contains the MIME type.
        let mut encoded = *config;
        encoded.has_metadata = true;
        let versions = self.service.list_artifact_versions(session, filename, &encoded).await?;
        let decoded = |version| {
            let mut version = self.decode_version(session, filename, version)?;
            if !config.has_metadata {
                version.custom_metadata.clear();
            }
            Ok(version)
        };
        versions.into_iter().map(decoded).collect()
    }
}

impl<S: ArtifactService, C: Codec> Coded<S, C> {
    /// Returns the encoded part; `None` if it is stored unchanged.
    fn encode_part(&self, session: &SessionKey, filename: &str, part: &Part) -> Result<Option<Part>> {
        let plain = to_bytes(part)?;
        let looks_encoded = mime_type(part) == Some(C::MIME_TYPE);
        if !looks_encoded && !self.coder.0.wants(plain.len()) {
            return Ok(None);
        }
        let location = Location::artifact(session, filename);
        let encoded = self.coder.0.encode(&plain, &location, Uuid::new_v4().as_bytes())?.into_bytes();
        let keeps = looks_encoded || self.coder.0.keeps(plain.len(), encoded.len());
        Ok(keeps.then(|| Part::bytes(encoded, C::MIME_TYPE)))
    }

    fn decode_part(&self, session: &SessionKey, filename: &str, part: Part) -> Result<Part> {
        let location = Location::artifact(session, filename);
        if mime_type(&part) != Some(C::MIME_TYPE) {
            self.coder.0.check_plain(&location)?;
            return Ok(part);
        }
        let bytes = part.inline_data.and_then(|blob| blob.data).unwrap_or_default();
        let encoded = Encoded::from_bytes(&bytes).ok_or_else(|| unreadable(&location))?;
        from_bytes(&self.coder.0.decode(&encoded, &location)?).ok_or_else(|| unreadable(&location))
    }

    /// Encodes the metadata and the original type of the data into a single field.
    fn encode_metadata(
        &self,
        session: &SessionKey,
        filename: &str,
        mime_type: Option<String>,
        metadata: Map<String, Value>,
    ) -> Result<Map<String, Value>> {
        let text = json::to_text(&(mime_type, metadata), "the artifact's metadata")?;
        let location = Location::metadata(session, filename);
        let encoded = self.coder.0.encode(text.as_bytes(), &location, Uuid::new_v4().as_bytes())?;
        Ok(Map::from_iter([(C::FIELD.to_owned(), Value::String(encoded.to_text(C::MARK)))]))
    }

    fn decode_version(
        &self,
        session: &SessionKey,
        filename: &str,
        version: ArtifactVersion,
    ) -> Result<ArtifactVersion> {
        let location = Location::metadata(session, filename);
        if version.mime_type.as_deref() != Some(C::MIME_TYPE) {
            self.coder.0.check_plain(&location)?;
            return Ok(version);
        }
        let text = version.custom_metadata.get(C::FIELD).and_then(marked::<C>).ok_or_else(|| unreadable(&location))?;
        let plain = self.coder.decode_text(text, &location)?;
        let (mime_type, metadata) = serde_json::from_slice(&plain).map_err(|_| unreadable(&location))?;
        Ok(version.with_metadata(mime_type, metadata))
    }
}

fn mime_type(part: &Part) -> Option<&str> {
    part.inline_data.as_ref()?.mime_type.as_deref()
}

/// Returns a part as bytes: its JSON without the data, then the data, which would be a third longer in JSON.
fn to_bytes(part: &Part) -> Result<Vec<u8>> {
    let mut rest = part.clone();
    let data = rest.inline_data.as_mut().and_then(|blob| blob.data.take());
    let text = json::to_text(&(data.is_some(), rest), "the artifact")?;
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes.extend(data.unwrap_or_default());
    Ok(bytes)
}

fn from_bytes(bytes: &[u8]) -> Option<Part> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (text, data) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let (has_data, mut part): (bool, Part) = serde_json::from_slice(text).ok()?;
    if has_data {
        part.inline_data.as_mut()?.data = Some(data.to_vec());
    }
    Some(part)
}
