//! Encodes titles and labels, if the encoding covers them.

use uuid::Uuid;

use super::text::unreadable;
use super::{Codec, Coded, Coder, Location};
use scratchbook_core::error::Result;
use scratchbook_core::plan::filter::SessionFilter;
use scratchbook_core::session::{
    ListSessionsConfig, ListSessionsResponse, SessionKey, SessionMetadata, SessionService, SessionUpdate,
};

impl<S: SessionService, C: Codec> Coded<S, C> {
    /// Encodes an update of a session.
    pub(super) fn coded_update(&self, key: &SessionKey, mut update: SessionUpdate) -> Result<SessionUpdate> {
        update.check()?;
        if let Some(title) = update.title.as_mut().filter(|title| !title.is_empty()) {
            *title = self.coder.encode_metadata(title, &Location::title(key))?;
        }
        for (name, value) in &mut update.labels {
            if let Some(value) = value {
                *value = self.coder.encode_metadata(value, &Location::label(key, name))?;
            }
        }
        Ok(update)
    }

    /// Lists sessions. If the store cannot read titles and labels, it lists all sessions, and this layer filters them.
    pub(super) async fn list_coded(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        let filter = SessionFilter::new(config)?;
        let mut asked = config.clone();
        if C::OF_METADATA {
            (asked.title, asked.labels) = Default::default();
        }
        let page = self.service.list_sessions(app_name, &asked).await?;
        let sessions = page.sessions.into_iter().map(|session| self.coder.open_session(session));
        let mut sessions = sessions.collect::<Result<Vec<_>>>()?;
        sessions.retain(|session| filter.matches(session.metadata()));
        Ok(ListSessionsResponse::new(sessions, page.next_page_token))
    }
}

impl<C: Codec> Coder<C> {
    /// Encodes a session's title and labels.
    pub(super) fn coded_metadata(&self, key: &SessionKey, mut metadata: SessionMetadata) -> Result<SessionMetadata> {
        if let Some(title) = &mut metadata.title {
            *title = self.encode_metadata(title, &Location::title(key))?;
        }
        for (name, value) in &mut metadata.labels {
            *value = self.encode_metadata(value, &Location::label(key, name))?;
        }
        Ok(metadata)
    }

    /// Decodes a session's title and labels.
    pub(super) fn open_metadata(&self, key: &SessionKey, metadata: &SessionMetadata) -> Result<SessionMetadata> {
        let mut metadata = metadata.clone();
        if let Some(title) = &mut metadata.title {
            *title = self.decode_metadata(title, &Location::title(key))?;
        }
        for (name, value) in &mut metadata.labels {
            *value = self.decode_metadata(value, &Location::label(key, name))?;
        }
        Ok(metadata)
    }

    fn encode_metadata(&self, text: &str, location: &Location<'_>) -> Result<String> {
        if !C::OF_METADATA {
            return Ok(text.to_owned());
        }
        let salt = Uuid::new_v4();
        Ok(self.0.encode(text.as_bytes(), location, salt.as_bytes())?.to_text(C::MARK))
    }

    fn decode_metadata(&self, stored: &str, location: &Location<'_>) -> Result<String> {
        if !C::OF_METADATA {
            return Ok(stored.to_owned());
        }
        let Some(text) = stored.strip_prefix(C::MARK) else {
            self.0.check_plain(location)?;
            return Ok(stored.to_owned());
        };
        String::from_utf8(self.decode_text(text, location)?).map_err(|_| unreadable(location))
    }
}
