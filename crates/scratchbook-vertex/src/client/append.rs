//! Appending events, one request each.

use std::sync::Arc;

use google_cloud_gax::error::Error as GaxError;

use super::VertexAiSessionService;
use super::failure::{CallKind, failure, is_not_found, is_taken};
use super::message;
use super::unsupported::{OTHER_STORE, check_append, check_numbers, unsupported};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::event::Event;
use scratchbook_core::plan::commit::prepare_event;
use scratchbook_core::plan::limits::Limits;
use scratchbook_core::session::{AppendOptions, Committed, Outcome, SessionKey, no_session};
use scratchbook_core::state::Scope;

impl VertexAiSessionService {
    pub(super) async fn append_to(
        &self,
        key: &SessionKey,
        mut event: Event,
        options: AppendOptions,
    ) -> Result<Committed> {
        if event.is_partial() {
            return Ok(Committed::new(Arc::new(event), Outcome::Partial));
        }
        let name = self.names.session(key)?;
        check_append(&options)?;
        event.actions.state_delta.retain(|key| Scope::split(key).0 != Scope::Temp);
        if event.actions.state_delta.has_operations() {
            return Err(unsupported("no operations and guards in a delta", OTHER_STORE));
        }
        if event.author.is_empty() {
            return Err(Error::invalid(
                "the event has no author, and sessions of Vertex AI take none without; name one",
            ));
        }
        let event = prepare_event(event, &*self.environment, &Limits::unlimited())?.event;
        let sent = message::event(&event)?;
        sent.raw_event.iter().flatten().try_for_each(|(_, value)| check_numbers(value))?;
        if !self.owners.is_known(key) && self.owned(key).await?.is_none() {
            return Err(no_session(key));
        }
        let request = self.client.append_event().set_name(&name).set_event(sent);
        match self.patience.with(request).send().await {
            // The number of the event is known only to the store.
            Ok(_) => Ok(Committed::new(Arc::new(event), Outcome::Stored)),
            Err(error) => Err(self.refused(key, &event, error)),
        }
    }

    fn refused(&self, key: &SessionKey, event: &Event, error: GaxError) -> Error {
        if is_not_found(&error) {
            self.owners.forget(key);
            return no_session(key);
        }
        if is_taken(&error) {
            let message = format!("the event {} is in the session already, with other content; use a new id", event.id);
            return Error::new(ErrorKind::AlreadyExists, message);
        }
        failure(&format!("append an event to {key}"), CallKind::Once, error)
    }
}
