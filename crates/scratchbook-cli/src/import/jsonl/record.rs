//! Reads and checks a line of an export.

use std::collections::HashMap;

use scratchbook::content::Part;
use scratchbook::environment::SystemEnvironment;
use scratchbook::plan::{prepare_artifact, prepare_event, prepare_session, prepare_state};
use scratchbook::session::{Expiry, PutStateOptions, StateOwner};
use scratchbook::store::Limits;
use scratchbook::store::export::{Counts, FORMAT, VERSION};
use scratchbook::{CreateSessionConfig, Error, ErrorKind, Event, SessionKey, StateDelta, json};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::source::{IMPORTER, not_an_object};

/// A line of an export.
#[derive(Debug)]
pub(super) enum ImportLine {
    Header,
    Owner(StateOwner, Map<String, Value>),
    Put(StateDelta, PutStateOptions),
    Session { id: String, config: Box<CreateSessionConfig>, events: u64 },
    Event(u64, Box<Event>),
    Artifact(Box<Artifact>),
    End(Counts),
}

/// A version of an artifact.
#[derive(Debug)]
pub(super) struct Artifact {
    pub(super) filename: String,
    pub(super) version: u64,
    pub(super) custom_metadata: Map<String, Value>,
    pub(super) part: Part,
}

impl ImportLine {
    /// Parses a line.
    pub(super) fn read(line: &str) -> Result<Self, Error> {
        let mut fields = LineFields::read(line)?;
        let kind: String = fields.take("type")?;
        let record = match kind.as_str() {
            "header" => {
                let (format, version): (String, u64) = (fields.take("format")?, fields.take("version")?);
                if format != FORMAT {
                    return Err(Error::invalid(format!("the format is '{format}', not '{FORMAT}'")));
                }
                if version > VERSION {
                    let message = format!("the file has version {version}, which a newer scratchbook has made");
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
                Self::Header
            }
            "app" => Self::Owner(StateOwner::app(&fields.take::<String>("appName")?)?, fields.take("state")?),
            "user" => {
                let (app, user): (String, String) = (fields.take("appName")?, fields.take("userId")?);
                Self::Owner(StateOwner::user(&app, &user)?, fields.take("state")?)
            }
            "put" => {
                let options = PutStateOptions::by(fields.take::<String>("author")?).with_time(fields.take("time")?);
                options.clone().checked(|| 0.0)?;
                Self::Put(fields.take("stateDelta")?, options)
            }
            "session" => {
                let state: Map<String, Value> = fields.take("state")?;
                let mut config = CreateSessionConfig::default().with_state(state);
                config.create_time = fields.optional("createTime")?;
                config.expiry = fields.optional("expireTime")?.map(Expiry::At);
                config.title = fields.optional("title")?;
                config.labels = fields.optional("labels")?.unwrap_or_default();
                Self::Session { id: fields.take("id")?, config: Box::new(config), events: fields.take("events")? }
            }
            "event" => {
                let seq = fields.take("seq")?;
                let event = Event::from_json(fields.raw("event")?.get())?;
                Self::Event(seq, Box::new(event))
            }
            "artifact" => Self::Artifact(Box::new(Artifact {
                filename: fields.take("filename")?,
                version: fields.take("version")?,
                custom_metadata: fields.take("customMetadata")?,
                part: fields.take("artifact")?,
            })),
            "end" => {
                let counts = Counts {
                    apps: fields.take("apps")?,
                    users: fields.take("users")?,
                    puts: fields.take("puts")?,
                    sessions: fields.take("sessions")?,
                    events: fields.take("events")?,
                    artifacts: fields.take("artifacts")?,
                };
                Self::End(counts)
            }
            other => return Err(Error::invalid(format!("there are no lines of the type '{other}'"))),
        };
        fields.no_more()?;
        Ok(record)
    }

    /// Returns the line's `type`.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Owner(StateOwner::App { .. }, _) => "app",
            Self::Owner(..) => "user",
            Self::Put(..) => "put",
            Self::Session { .. } => "session",
            Self::Event(..) => "event",
            Self::Artifact(_) => "artifact",
            Self::End(_) => "end",
        }
    }

    /// Checks a line as a store would, for the owner that it belongs to.
    pub(super) fn check(&self, owner: &StateOwner) -> Result<(), Error> {
        let (app, user) = (owner.app_name(), owner.user_id().unwrap_or_default());
        // The store checks its own limits.
        let limits = Limits::unlimited();
        match self {
            Self::Owner(owner, state) => {
                let delta = StateDelta::try_from(state.clone())?;
                drop(prepare_state(owner, delta, &IMPORTER.into(), &limits)?);
            }
            Self::Put(delta, options) => drop(prepare_state(owner, delta.clone(), options, &limits)?),
            Self::Session { id, config, .. } => {
                let key = SessionKey::new(app, user, id)?;
                if key.session_id() != id {
                    return Err(Error::invalid(format!("the session id '{id}' has spaces around it")));
                }
                let config = config.as_ref().clone().with_session_id(id);
                drop(prepare_session(app, user, config, &SystemEnvironment, &limits)?);
            }
            Self::Event(_, event) => {
                if event.id.is_empty() || event.timestamp.is_none() || event.is_partial() {
                    return Err(Error::invalid("a stored event has an id and a timestamp, and is whole"));
                }
                drop(prepare_event(event.as_ref().clone(), &SystemEnvironment, &limits)?);
            }
            Self::Artifact(artifact) => {
                let (part, metadata) = (artifact.part.clone(), artifact.custom_metadata.clone());
                // The session's id was checked with the session.
                let session = SessionKey::new(app, user, "-")?;
                drop(prepare_artifact(&session, &artifact.filename, part, metadata, &limits)?);
            }
            Self::Header | Self::End(_) => {}
        }
        Ok(())
    }
}

/// The fields of a line that were not taken yet.
struct LineFields(HashMap<String, Box<RawValue>>);

impl LineFields {
    fn read(line: &str) -> Result<Self, Error> {
        // Values are parsed one by one, so that an event can have its full depth.
        serde_json::from_str(line).map(Self).map_err(|e| Error::invalid(not_an_object(&e)))
    }

    fn raw(&mut self, name: &str) -> Result<Box<RawValue>, Error> {
        self.0.remove(name).ok_or_else(|| Error::invalid(format!("the field '{name}' is missing")))
    }

    fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, Error> {
        json::from_str(self.raw(name)?.get()).map_err(|e| e.context(format!("the field '{name}'")))
    }

    fn optional<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, Error> {
        if self.0.contains_key(name) { self.take(name).map(Some) } else { Ok(None) }
    }

    fn no_more(&self) -> Result<(), Error> {
        match self.0.keys().min() {
            Some(name) => Err(Error::invalid(format!("the field '{name}' is not known"))),
            None => Ok(()),
        }
    }
}
