//! `scratchbook schema check`.

use futures_util::{StreamExt, pin_mut};
use scratchbook::layer::{StateSchema, WithStateSchema};
use scratchbook::session::StateOwner;
use scratchbook::{CreateSessionConfig, Error, InMemorySessionService, Scope, SessionKey, SessionService, StateDelta};
use serde_json::{Map, Value, json};

use crate::args::SchemaCheckArgs;
use crate::context::{Context, read_schema};
use crate::database::OpenDatabase;
use crate::failure::CommandFailure;
use crate::output::{BAD, Format, GOOD, Output, plural, styled, visible};
use crate::progress::Progress;
use crate::walk::{Depth, Selection, WalkEntry, name_of, walk};

pub(crate) async fn check(context: &Context, args: SchemaCheckArgs, out: &mut Output) -> Result<(), CommandFailure> {
    let schema = read_schema(&args.file)?;
    let Some(app) = &args.app else {
        if out.format() == Format::Json {
            return Ok(out.json(&json!({"version": schema.version()}))?);
        }
        let file = args.file.display().to_string();
        let text = format!("{} is version {} of a schema for state", visible(&file), schema.version());
        return Ok(out.line(styled(GOOD, text))?);
    };
    let selection = Selection::new(Some(app), args.user.as_deref())?;
    let database = OpenDatabase::open(context).await?;
    let mut check = SchemaCheck::new(app, schema);
    let progress = Progress::counting("checking", out.format());
    {
        let entries = walk(&database, &selection, Depth::Sessions);
        pin_mut!(entries);
        while let Some(entry) = entries.next().await {
            let broken = check.entry(&database, entry?).await?;
            progress.show(plural(check.keys, "key"));
            if out.format() == Format::Text {
                let lines = broken.iter().map(|SchemaViolation { of, message }| (visible(of), visible(message)));
                let mut print =
                    lines.map(|(of, what)| out.line(format_args!("{}  {of}: {what}", styled(BAD, "breaks"))));
                progress.aside(|| print.try_for_each(|printed| printed))?;
            }
            check.broken.extend(broken);
        }
    }
    progress.finish();
    if check.keys + check.sessions == 0 {
        return Err(selection.not_found().into());
    }
    database.close().await?;
    check.print(out)
}

/// A violation of the schema.
#[derive(Debug)]
struct SchemaViolation {
    /// The app, user or session whose state violates the schema.
    of: String,
    message: String,
}

struct SchemaCheck {
    app: String,
    schema: StateSchema,
    keys: u64,
    sessions: u64,
    broken: Vec<SchemaViolation>,
}

impl SchemaCheck {
    fn new(app: &str, schema: StateSchema) -> Self {
        Self { app: app.to_owned(), schema, keys: 0, sessions: 0, broken: Vec::new() }
    }

    async fn entry(
        &mut self,
        database: &OpenDatabase,
        entry: WalkEntry,
    ) -> Result<Vec<SchemaViolation>, CommandFailure> {
        Ok(match entry {
            WalkEntry::Owner(owner) => {
                let state = database.sessions.get_state(&owner).await?;
                let scope = if owner.user_id().is_some() { Scope::User } else { Scope::App };
                self.state(&name_of(&owner), scope, &owner, state).await
            }
            WalkEntry::Session(session) => {
                self.sessions += 1;
                let key: &SessionKey = session.key();
                let state = session.state().scope_as(Scope::Session)?;
                self.state(&key.to_string(), Scope::Session, &key.user(), state).await
            }
            WalkEntry::Named(_) => Vec::new(),
            WalkEntry::Unlisted(_, error) => return Err(error.into()),
        })
    }

    /// Checks one scope: each key by itself, and then all keys as one object.
    async fn state(
        &mut self,
        of: &str,
        scope: Scope,
        owner: &StateOwner,
        state: Map<String, Value>,
    ) -> Vec<SchemaViolation> {
        self.keys += state.len() as u64;
        let mut found = Vec::new();
        for (name, value) in &state {
            let delta = StateDelta::new().with(scope.key(name).into_owned(), value.clone());
            found.extend(delta.and_then(|delta| self.schema.check_delta(&delta)).err().map(|e| e.to_string()));
        }
        if let Err(error) = self.as_a_whole(scope, owner, state).await {
            let message = error.to_string();
            if !found.contains(&message) {
                found.push(message);
            }
        }
        found.into_iter().map(|message| SchemaViolation { of: of.to_owned(), message }).collect()
    }

    /// Checks a scope as a store with this schema would if all keys were written at once.
    async fn as_a_whole(&self, scope: Scope, owner: &StateOwner, state: Map<String, Value>) -> Result<(), Error> {
        if state.is_empty() {
            return Ok(());
        }
        let store = WithStateSchema::new(InMemorySessionService::new()).with_app(&self.app, self.schema.clone());
        if scope == Scope::Session {
            let config = CreateSessionConfig::default().with_state(state);
            return store.create_session(&self.app, owner.user_id().unwrap_or_default(), config).await.map(drop);
        }
        store.put_state(owner, StateDelta::try_from(state)?, "check".into()).await.map(drop)
    }

    fn print(self, out: &mut Output) -> Result<(), CommandFailure> {
        let version = self.schema.version();
        if out.format() == Format::Json {
            let broken =
                self.broken.iter().map(|SchemaViolation { of, message }| json!({"of": of, "message": message}));
            let broken: Vec<_> = broken.collect();
            out.json(&json!({"version": version, "keys": self.keys, "broken": broken}))?;
        } else {
            out.line(format_args!("checked {} by version {version}", plural(self.keys, "key")))?;
        }
        match self.broken.len() {
            0 => Ok(()),
            count => Err(CommandFailure::SchemaViolations(count)),
        }
    }
}
