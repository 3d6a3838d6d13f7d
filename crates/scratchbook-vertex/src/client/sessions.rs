//! Creating, reading, listing, changing and deleting sessions.

use std::sync::Arc;

use futures_util::future::join;
use google_cloud_aiplatform_v1::model;
use google_cloud_gax::options::RequestOptionsBuilder;
use google_cloud_longrunning::model::Operation;
use google_cloud_wkt::FieldMask;
use serde_json::Value;

use super::VertexAiSessionService;
use super::events::{self, EventSelection, FetchedEvents};
use super::failure::{CallKind, failure, is_not_found};
use super::message;
use super::names::{check_session_id, last, quoted};
use super::retry::Tries;
use super::unsupported::{check_create, check_numbers, unsupported};
use scratchbook_core::error::{Error, ErrorKind, Result};
use scratchbook_core::plan::filter::SessionFilter;
use scratchbook_core::session::{
    CreateSessionConfig, Events, GetSessionConfig, ListOrder, ListSessionsConfig, ListSessionsResponse, OtherLabels,
    Session, SessionKey, SessionMetadata, SessionUpdate, StateSelection, TitleFilter, check_id, check_nameable,
    check_owner, no_session,
};
use scratchbook_core::state::{Scope, StateDelta, check_key};
use scratchbook_core::store::taken;

impl VertexAiSessionService {
    pub(super) async fn create(&self, app_name: &str, user_id: &str, config: CreateSessionConfig) -> Result<Session> {
        check_owner(app_name, user_id)?;
        check_nameable("user id", user_id)?;
        check_create(&config)?;
        let engine = self.names.engine(app_name)?;
        let id = config.session_id.as_deref().map(str::trim).unwrap_or_default();
        if !id.is_empty() {
            check_session_id(id)?;
        }
        let metadata = SessionMetadata::new(config.title, config.labels)?;
        let mut state = StateDelta::try_from(config.state)?;
        state.retain(|key| Scope::split(key).0 != Scope::Temp);
        let state = serde_json::to_value(&state).map_err(|e| Error::internal("a state is no JSON").with_source(e))?;
        check_numbers(&state)?;
        let Value::Object(state) = state else { return Err(Error::internal("a state is no object")) };
        let expiry = config.expiry.map(|expiry| message::expiration(expiry, || self.environment.now())).transpose()?;
        let session = model::Session::new()
            .set_user_id(user_id)
            .set_display_name(metadata.title.unwrap_or_default())
            .set_labels(metadata.labels)
            .set_session_state(state)
            .set_expiration(expiry);
        let tries = Tries::new(self.patience);
        let request = self.client.create_session().set_parent(&engine).set_session_id(id).set_session(session);
        let what = format!("create a session of {engine}");
        let name = match self.done(&what, CallKind::Once, tries.of(request).send()).await {
            Ok(made) => {
                let asked_for = || (!id.is_empty()).then(|| format!("{engine}/sessions/{id}"));
                let name = name_of(&made).or_else(asked_for);
                name.ok_or_else(|| {
                    Error::corrupted(format!("{what}: it was made, and its id is not told")).not_retryable()
                })?
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists && !id.is_empty() => {
                let key = SessionKey::new(app_name, user_id, id)?;
                // A creation that was sent again may have conflicted with its own first attempt.
                let own = if tries.may_be_done() { self.owned(&key).await? } else { None };
                let own = own.ok_or_else(|| taken(&key))?;
                return Ok(message::session(key, own, &StateSelection::All).with_seq(0));
            }
            Err(error) => return Err(error),
        };
        // The result of the operation may lack the state and the times.
        let read = self
            .fetch(&name)
            .await
            .and_then(|read| read.ok_or_else(|| Error::new(ErrorKind::Unavailable, "it is not there")));
        let read =
            read.map_err(|error| error.context(format!("{name} was made and cannot be read")).not_retryable())?;
        let key = SessionKey::new(app_name, user_id, last(&name))?;
        self.owners.learn(&key);
        Ok(message::session(key, read, &StateSelection::All).with_seq(0))
    }

    pub(super) async fn read(&self, key: &SessionKey, config: &GetSessionConfig) -> Result<Option<Session>> {
        config.check()?;
        if let StateSelection::Keys(keys) = &config.state {
            keys.iter().try_for_each(|key| check_key(key))?;
        }
        let name = self.names.session(key)?;
        let found = async {
            match EventSelection::new(config) {
                Some(wanted) => events::read(&self.client, self.patience, &name, wanted, config.after_timestamp).await,
                None => Ok(Some(FetchedEvents::default())),
            }
        };
        let (sent, found) = join(self.owned(key), found).await;
        // The owner is checked first, so that errors in another user's events are not reported.
        let Some(sent) = sent? else { return Ok(None) };
        let Some(found) = found? else { return Ok(None) };
        let session = message::session(key.clone(), sent, &config.state);
        let session = match found.last {
            Some(last) => session.with_seq(last),
            None => session,
        };
        let events: Events = found.events()?.into_iter().map(Arc::new).collect();
        Ok(Some(session.with_events(events)))
    }

    /// Reads a session if it belongs to its user. A session of another user counts as missing.
    pub(super) async fn owned(&self, key: &SessionKey) -> Result<Option<model::Session>> {
        let found = self.fetch(&self.names.session(key)?).await?.filter(|session| session.user_id == key.user_id());
        match &found {
            Some(_) => self.owners.learn(key),
            None => self.owners.forget(key),
        }
        Ok(found)
    }

    async fn fetch(&self, name: &str) -> Result<Option<model::Session>> {
        match self.patience.with(self.client.get_session().set_name(name)).send().await {
            Ok(session) => Ok(Some(session)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(failure(&format!("get {name}"), CallKind::Read, error)),
        }
    }

    pub(super) async fn locate(&self, app_name: &str, session_id: &str) -> Result<Option<SessionKey>> {
        // Refuses an id that no session of any user can have.
        let id = SessionKey::new(app_name, "", session_id)?;
        let found = self.fetch(&self.names.session(&id)?).await?;
        found.map(|session| SessionKey::new(app_name, &session.user_id, id.session_id())).transpose()
    }

    pub(super) async fn list(&self, app_name: &str, config: &ListSessionsConfig) -> Result<ListSessionsResponse> {
        check_list(config)?;
        let engine = self.names.engine(app_name)?;
        let order = match config.order {
            ListOrder::OldestFirst => "update_time",
            ListOrder::NewestFirst => "update_time desc",
        };
        let request = self
            .client
            .list_sessions()
            .set_parent(&engine)
            .set_page_size(i32::try_from(config.page_size).unwrap_or(i32::MAX))
            .set_page_token(config.page_token.clone().unwrap_or_default())
            .set_filter(filter(config)?)
            .set_order_by(order);
        let page = self.patience.with(request).send().await;
        let page = page.map_err(|error| failure(&format!("list the sessions of {engine}"), CallKind::Read, error))?;
        let session = |sent: model::Session| {
            let key = SessionKey::new(app_name, &sent.user_id, last(&sent.name))?;
            Ok(message::session(key, sent, &StateSelection::All))
        };
        let sessions = page.sessions.into_iter().map(session).collect::<Result<_>>()?;
        let next = Some(page.next_page_token).filter(|token| !token.is_empty());
        Ok(ListSessionsResponse::new(sessions, next))
    }

    pub(super) async fn delete(&self, key: &SessionKey) -> Result<()> {
        if self.owned(key).await?.is_none() {
            return Ok(());
        }
        self.owners.forget(key);
        let name = self.names.session(key)?;
        let deleting = async {
            match self.patience.with(self.client.delete_session().set_name(&name)).send().await {
                Err(error) if is_not_found(&error) => Ok(Operation::new().set_done(true)),
                begun => begun,
            }
        };
        let deleted = self.done(&format!("delete {name}"), CallKind::Change, deleting).await;
        // A concurrent read may have cached the owner again.
        self.owners.forget(key);
        deleted.map(drop)
    }

    pub(super) async fn change(&self, key: &SessionKey, update: SessionUpdate) -> Result<()> {
        update.check()?;
        let expiry = update.expiry.flatten();
        let expiry = expiry.map(|expiry| message::expiration(expiry, || self.environment.now())).transpose()?;
        let found = self.owned(key).await?.ok_or_else(|| no_session(key))?;
        let before = SessionMetadata {
            title: Some(found.display_name).filter(|title| !title.is_empty()),
            labels: found.labels.into_iter().collect(),
        };
        let after = before.updated(&update)?;
        let mut mask = Vec::new();
        mask.extend(update.title.is_some().then_some("display_name"));
        // Labels can only be replaced as a whole.
        let names_labels = !update.labels.is_empty() || update.other_labels == OtherLabels::Remove;
        mask.extend(names_labels.then_some("labels"));
        mask.extend(update.expiry.map(|_| match expiry {
            Some(model::session::Expiration::Ttl(_)) => "ttl",
            _ => "expire_time",
        }));
        let session = model::Session::new().set_display_name(after.title.unwrap_or_default()).set_labels(after.labels);
        self.patch(key, session.set_expiration(expiry), &mask).await
    }

    async fn patch(&self, key: &SessionKey, session: model::Session, mask: &[&str]) -> Result<()> {
        if mask.is_empty() {
            return Ok(());
        }
        let name = self.names.session(key)?;
        let request = self
            .client
            .update_session()
            .set_session(session.set_name(&name))
            .set_update_mask(FieldMask::default().set_paths(mask.iter().copied()))
            // The request describes the final state, so it is idempotent.
            .with_idempotency(true);
        match self.patience.with(request).send().await {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Err(no_session(key)),
            Err(error) => Err(failure(&format!("update {name}"), CallKind::Change, error)),
        }
    }
}

/// Returns the name of the session that an operation has created.
fn name_of(made: &Operation) -> Option<String> {
    let session = made.response().and_then(|response| response.to_msg::<model::Session>().ok());
    let own = || made.name.split_once("/operations/").map(|(name, _)| name.to_owned());
    let is_session = |name: &String| name.contains("/sessions/");
    session.map(|session| session.name).filter(is_session).or_else(|| own().filter(is_session))
}

fn check_list(config: &ListSessionsConfig) -> Result<()> {
    SessionFilter::new(config)?;
    config.user_id.iter().try_for_each(|user_id| check_id("user id", user_id))?;
    if config.page_token.as_deref() == Some("") {
        return Err(Error::invalid("an empty page token is none that a list gives; leave it out"));
    }
    match config.page_size {
        1..=1000 => Ok(()),
        size => Err(Error::invalid(format!("a page size of {size}; it is 1 to 1000"))),
    }
}

fn filter(config: &ListSessionsConfig) -> Result<String> {
    let mut conditions = Vec::new();
    conditions.extend(config.user_id.as_deref().map(|user| format!("user_id={}", quoted(user))));
    match &config.title {
        None => {}
        Some(TitleFilter::Containing(text)) if text.is_empty() => {}
        Some(TitleFilter::Is(title)) => conditions.push(format!("display_name={}", quoted(title))),
        Some(TitleFilter::Containing(_)) => {
            return Err(unsupported("no search in titles", "look for a whole title, or for labels"));
        }
    }
    for (name, value) in &config.labels {
        let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let name = if is_plain { name.clone() } else { quoted(name) };
        conditions.push(format!("labels.{name}={}", quoted(value)));
    }
    Ok(conditions.join(" AND "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_every_condition() {
        let config = ListSessionsConfig::default().with_user_id("a\"b").with_title("t").with_label("x", "1");
        let config = config.with_label("a.b", "2");
        assert_eq!(
            filter(&config).unwrap(),
            r#"user_id="a\"b" AND display_name="t" AND labels."a.b"="2" AND labels.x="1""#
        );
        let error = filter(&ListSessionsConfig::default().with_title_containing("t")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
