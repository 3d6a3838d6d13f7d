//! The location that encoded data belongs to, so that data copied to another location is detected.

use std::borrow::Cow;
use std::fmt;

use scratchbook_core::event::Event;
use scratchbook_core::session::{SessionKey, StateOwner};
use scratchbook_core::state::{Scope, StateDelta};

/// The location of a value, an event or an artifact. The session's id is not part of the location, because a fork
/// copies data inside the store.
#[derive(Debug)]
pub struct Location<'a> {
    kind: LocationKind,
    app: &'a str,
    /// `None` if the data belongs to the app.
    user: Option<&'a str>,
    name: Cow<'a, str>,
    /// The fields that are stored beside the data and not encoded. The encoding detects changes of these fields, too.
    #[cfg_attr(not(feature = "encryption"), expect(dead_code, reason = "compression is bound to no location"))]
    beside: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum LocationKind {
    Value,
    Event,
    Artifact,
    Metadata,
    Title,
    Label,
}

impl<'a> Location<'a> {
    /// Returns the location of a key's value in the merged state of a user's session.
    pub(crate) fn value(app: &'a str, user: &'a str, key: &'a str) -> Self {
        let user = (Scope::split(key).0 != Scope::App).then_some(user);
        Self { kind: LocationKind::Value, app, user, name: Cow::Borrowed(key), beside: Vec::new() }
    }

    /// Returns the location of the value of a user's or an app's key; the name has no prefix.
    pub(crate) fn owned(owner: &'a StateOwner, name: &'a str) -> Self {
        let name = scope_of(owner).key(name);
        Self { kind: LocationKind::Value, app: owner.app_name(), user: owner.user_id(), name, beside: Vec::new() }
    }

    /// Returns the location of an event, with the event's unencoded fields.
    pub(super) fn event(session: &'a SessionKey, event: &'a Event, delta: &StateDelta) -> Self {
        let mut beside = Vec::new();
        let branch = event.branch.as_deref();
        for part in [&event.author, &event.invocation_id, branch.unwrap_or_default()] {
            add(&mut beside, part.as_bytes());
        }
        beside.push(u8::from(branch.is_some()));
        // Only operations have no JSON, and a stored delta has no operations.
        add(&mut beside, &serde_json::to_vec(delta).unwrap_or_default());
        let (app, user) = (session.app_name(), Some(session.user_id()));
        Self { kind: LocationKind::Event, app, user, name: Cow::Borrowed(&event.id), beside }
    }

    /// Returns the location of an artifact's data.
    pub(super) fn artifact(session: &'a SessionKey, filename: &'a str) -> Self {
        let (app, user) = (session.app_name(), Some(session.user_id()));
        Self { kind: LocationKind::Artifact, app, user, name: Cow::Borrowed(filename), beside: Vec::new() }
    }

    /// Returns the location of an artifact's metadata.
    pub(super) fn metadata(session: &'a SessionKey, filename: &'a str) -> Self {
        Self { kind: LocationKind::Metadata, ..Self::artifact(session, filename) }
    }

    /// Returns the location of the title of a user's session.
    pub(super) fn title(session: &'a SessionKey) -> Self {
        Self { kind: LocationKind::Title, ..Self::label(session, "") }
    }

    /// Returns the location of a label's value of a user's session.
    pub(super) fn label(session: &'a SessionKey, name: &'a str) -> Self {
        let (app, user) = (session.app_name(), Some(session.user_id()));
        Self { kind: LocationKind::Label, app, user, name: Cow::Borrowed(name), beside: Vec::new() }
    }

    /// Returns bytes that are different for each location.
    #[cfg(feature = "encryption")]
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind as u8, u8::from(self.user.is_some())];
        for part in [self.app, self.user.unwrap_or_default(), &self.name] {
            add(&mut bytes, part.as_bytes());
        }
        bytes.extend_from_slice(&self.beside);
        bytes
    }
}

/// Returns the scope that belongs to a user or an app.
pub(super) fn scope_of(owner: &StateOwner) -> Scope {
    if owner.user_id().is_some() { Scope::User } else { Scope::App }
}

fn add(to: &mut Vec<u8>, part: &[u8]) {
    to.extend_from_slice(&(part.len() as u64).to_le_bytes());
    to.extend_from_slice(part);
}

/// The location in a message: `the value of 'user:language' (my_app/alice)`.
impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            LocationKind::Value => "the value of",
            LocationKind::Event => "the event",
            LocationKind::Artifact => "the artifact",
            LocationKind::Metadata => "the description of the artifact",
            LocationKind::Title => "the title of a session",
            LocationKind::Label => "the label",
        };
        let slash = if self.user.is_some() { "/" } else { "" };
        let owner = format_args!("({}{slash}{})", self.app, self.user.unwrap_or_default());
        match self.kind {
            LocationKind::Title => write!(f, "{what} {owner}"),
            _ => write!(f, "{what} '{}' {owner}", self.name),
        }
    }
}
