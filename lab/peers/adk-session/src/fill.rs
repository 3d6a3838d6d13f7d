//! Prepares sessions in bulk. The service's tables then have the same rows as after appends, but this takes less time.

use adk_core::Event;
use adk_core::identity::AdkIdentity;
use adk_session::{AppendEventRequest, CreateRequest};
use chrono::Utc;
use sqlx::types::Json;

use crate::data::{created, delta, event};
use crate::measure::Preparation;
use crate::protocol::Result;
use crate::store::{PeerDatabase, PooledService};

/// How many rows are written in one transaction.
const GROUP: usize = 1000;

impl PooledService {
    /// Adds events of the writer -1 to a session, numbered from 0. The last event is appended through the service, as a
    /// program does this, so that the state is right.
    pub(crate) async fn fill(&self, session: &AdkIdentity, count: usize, preparation: &mut Preparation) -> Result<()> {
        let before: Vec<usize> = (0..count.saturating_sub(1)).collect();
        for group in before.chunks(GROUP) {
            let events = group.iter().map(|number| event((-1, *number), delta((-1, *number))));
            self.add_events(session, events.collect()).await?;
            preparation.advance(group.len())?;
        }
        if count > 0 {
            let event = event((-1, count - 1), delta((-1, count - 1)));
            self.service.append_event_for_identity(AppendEventRequest { identity: session.clone(), event }).await?;
        }
        Ok(())
    }

    async fn add_events(&self, session: &AdkIdentity, events: Vec<Event>) -> Result<()> {
        let columns = "id, app_name, user_id, session_id, invocation_id, branch, author, timestamp, llm_response, \
                       actions, long_running_tool_ids";
        let (app, user, id) = (session.app_name.as_ref(), session.user_id.as_ref(), session.session_id.as_ref());
        match &self.database {
            PeerDatabase::Memory => {
                for event in events {
                    let identity = session.clone();
                    self.service.append_event_for_identity(AppendEventRequest { identity, event }).await?;
                }
            }
            PeerDatabase::Sqlite(pool) => {
                let statement = format!("INSERT INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
                let mut transaction = pool.begin().await?;
                for event in events {
                    sqlx::query(&statement)
                        .bind(event.id)
                        .bind(app)
                        .bind(user)
                        .bind(id)
                        .bind(event.invocation_id)
                        .bind(event.branch)
                        .bind(event.author)
                        .bind(event.timestamp.to_rfc3339())
                        .bind(serde_json::to_string(&event.llm_response)?)
                        .bind(serde_json::to_string(&event.actions)?)
                        .bind("[]")
                        .execute(&mut *transaction)
                        .await?;
                }
                transaction.commit().await?;
            }
            PeerDatabase::Postgres(pool) => {
                let statement =
                    format!("INSERT INTO events ({columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)");
                let mut transaction = pool.begin().await?;
                for event in events {
                    sqlx::query(&statement)
                        .bind(event.id)
                        .bind(app)
                        .bind(user)
                        .bind(id)
                        .bind(event.invocation_id)
                        .bind(event.branch)
                        .bind(event.author)
                        .bind(event.timestamp)
                        .bind(Json(event.llm_response))
                        .bind(Json(event.actions))
                        .bind(Json(event.long_running_tool_ids))
                        .execute(&mut *transaction)
                        .await?;
                }
                transaction.commit().await?;
            }
        }
        Ok(())
    }

    /// Creates a session for each entry.
    pub(crate) async fn fill_sessions(&self, app: &str, users: &[String], preparation: &mut Preparation) -> Result<()> {
        for group in users.chunks(GROUP) {
            match &self.database {
                PeerDatabase::Memory => {
                    for user in group {
                        let (app_name, user_id) = (app.to_owned(), user.clone());
                        let request = CreateRequest { app_name, user_id, session_id: None, state: created() };
                        self.service.create(request).await?;
                    }
                }
                PeerDatabase::Sqlite(pool) => {
                    let mut transaction = pool.begin().await?;
                    for user in group {
                        let now = Utc::now().to_rfc3339();
                        sqlx::query("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)")
                            .bind(app)
                            .bind(user)
                            .bind(Event::new("").id)
                            .bind(serde_json::to_string(&created())?)
                            .bind(&now)
                            .bind(&now)
                            .execute(&mut *transaction)
                            .await?;
                    }
                    transaction.commit().await?;
                }
                PeerDatabase::Postgres(pool) => {
                    let mut transaction = pool.begin().await?;
                    for user in group {
                        sqlx::query("INSERT INTO sessions VALUES ($1, $2, $3, $4, now(), now())")
                            .bind(app)
                            .bind(user)
                            .bind(Event::new("").id)
                            .bind(Json(created()))
                            .execute(&mut *transaction)
                            .await?;
                    }
                    transaction.commit().await?;
                }
            }
            preparation.advance(group.len())?;
        }
        Ok(())
    }
}
