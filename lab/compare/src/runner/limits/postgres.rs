//! The limit of PostgreSQL: one connection, one prepared statement for each transaction, with the rows and indexes of
//! scratchbook; and COPY of only the events.

use std::time::Instant;

use bytes::Bytes;

use scratchbook_compare::protocol::{CellRequest, Measurement};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use super::rows::{CreatedState, EventRow, HASH, NewSessions, Writers, app};
use crate::failure::{CellFailure, Result};
use crate::measure::LatencyClock;
use crate::store::BenchStore;

/// Writes what an append writes, for each element of the arrays.
pub(super) const APPEND: &str = "
    WITH batch AS MATERIALIZED (
        SELECT t.*, pg_catalog.nextval('positions') AS position
        FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[])
            AS t (user_id, session_id, seq, id, event, value)
    ),
    stored AS (
        INSERT INTO events (app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, latest,
            event, position, xid)
        SELECT $1, user_id, session_id, seq, id, $8, 'e-0', 'agent', 1700000000 + seq, 1700000000 + seq, event, position,
            pg_current_xact_id()
        FROM batch
    ),
    moved AS (
        UPDATE sessions AS s SET seq = b.seq, update_time = (1700000000 + b.seq) * 1000000,
            bytes = s.bytes + octet_length(b.event)
        FROM batch AS b WHERE s.app_name = $1 AND s.user_id = b.user_id AND s.id = b.session_id
    ),
    own AS (
        INSERT INTO session_states (app_name, user_id, session_id, key, value, bytes, seq)
        SELECT $1, user_id, session_id, 'step', value, 4 + octet_length(value), seq FROM batch
        ON CONFLICT (app_name, user_id, session_id, key) DO UPDATE SET value = excluded.value, seq = excluded.seq
    ),
    shared AS (
        INSERT INTO user_states AS u (app_name, user_id, key, value, bytes, version, position)
        SELECT $1, user_id, 'step', value, 4 + octet_length(value), 1, position FROM batch
        ON CONFLICT (app_name, user_id, key) DO UPDATE SET value = excluded.value, version = u.version + 1,
            position = excluded.position
    )
    INSERT INTO state_log (app_name, scope, user_id, position, key, version, value, session_user_id, session_id, seq,
        event_id, author, time, xid)
    SELECT $1, 'user', user_id, position, 'step', seq, value, user_id, session_id, seq, id, 'agent', 1700000000 + seq,
        pg_current_xact_id()
    FROM batch";

/// Writes what the creation of a session with these keys writes, for each element of the first two arrays.
const CREATE: &str = "
    WITH batch AS MATERIALIZED (
        SELECT user_id, id, pg_catalog.nextval('positions') AS position
        FROM unnest($2::text[], $3::text[]) AS t (user_id, id)
    ),
    created AS (
        INSERT INTO sessions (app_name, user_id, id, seq, create_time, update_time, keys, token, position, bytes)
        SELECT $1, user_id, id, 0, 1700000000000000, 1700000000000000, cardinality($5::text[]), '', position,
            octet_length($4)
        FROM batch
    ),
    initial AS (
        INSERT INTO initial_states (app_name, user_id, session_id, state, position, xid)
        SELECT $1, user_id, id, $4, position, pg_current_xact_id() FROM batch
    )
    INSERT INTO session_states (app_name, user_id, session_id, key, value, bytes, seq)
    SELECT $1, user_id, id, key, value, octet_length(key) + octet_length(value), 0
    FROM batch CROSS JOIN unnest($5::text[], $6::text[]) AS k (key, value)";

const COPY: &str = "COPY events (app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, latest, \
                    event, position, xid) FROM STDIN";

const GET: &str = "SELECT event FROM events WHERE app_name = $1 AND user_id = $2 AND session_id = $3
    ORDER BY seq DESC LIMIT $4";

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Unnest,
    Copy,
}

/// A connection to the database of a store. The store is idle.
pub(crate) struct PostgresLimit {
    client: Client,
    version: String,
    append: Statement,
    create: Statement,
    get: Statement,
    store: BenchStore,
    way: Way,
}

/// Connects to a server, and drives the connection in a separate task.
pub(crate) async fn connect(uri: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(uri, NoTls).await?;
    // The task ends with the connection; a failure is reported by the next statement.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

impl PostgresLimit {
    pub(super) fn open(store: BenchStore, way: Way) -> Result<Self> {
        let opened = store.runtime.block_on(async {
            store.kept_session(0).await?;
            let client = connect(&store.location).await?;
            let (append, create, get) =
                (client.prepare(APPEND).await?, client.prepare(CREATE).await?, client.prepare(GET).await?);
            let version: String = client.query_one("SHOW server_version", &[]).await?.try_get(0)?;
            Ok::<_, CellFailure>((client, version, append, create, get))
        });
        let (client, version, append, create, get) = opened?;
        let version = version.split(' ').next().unwrap_or_default().to_owned();
        Ok(Self { client, version, append, create, get, store, way })
    }

    /// Returns the store, the service, the version and the configuration.
    pub(super) fn description(&self) -> (&'static str, &'static str, String, &'static str) {
        let (service, configuration) = match self.way {
            Way::Unnest => (
                "UNNEST",
                "the same rows and indexes by one prepared statement with arrays, one connection; as many events as tasks \
                 in it",
            ),
            Way::Copy => ("COPY", "the rows of events alone, with their indexes; as many events as tasks in a COPY"),
        };
        ("postgres", service, self.version.clone(), configuration)
    }

    pub(super) fn measure(&self, request: &CellRequest) -> Result<Measurement> {
        let runtime = &self.store.runtime;
        match (self.way, request.workload.as_str()) {
            (_, "append") => runtime.block_on(self.append(request)),
            (Way::Unnest, "create") => runtime.block_on(self.create(request)),
            (Way::Unnest, "get" | "get_json" | "get_recent") => runtime.block_on(self.get(request)),
            _ => Err(super::unsupported(request)),
        }
    }

    async fn append(&self, request: &CellRequest) -> Result<Measurement> {
        let addresses = super::addresses(&self.store, request).await?;
        let mut writers = Writers::new(addresses, i64::try_from(request.size)?);
        let mut clock = LatencyClock::start(None);
        while clock.elapsed().as_secs_f64() < request.seconds {
            let rows = writers.next()?;
            let started = Instant::now();
            match self.way {
                Way::Unnest => self.unnest(&rows).await?,
                Way::Copy => self.copy(&rows).await?,
            }
            let elapsed = started.elapsed();
            clock.add(vec![elapsed; rows.len()], elapsed);
        }
        Ok(clock.measured())
    }

    async fn unnest(&self, rows: &[EventRow]) -> Result<()> {
        let users: Vec<_> = rows.iter().map(|row| row.user.as_str()).collect();
        let sessions: Vec<_> = rows.iter().map(|row| row.session.as_str()).collect();
        let seqs: Vec<_> = rows.iter().map(|row| row.seq).collect();
        let ids: Vec<_> = rows.iter().map(|row| row.id.as_str()).collect();
        let events: Vec<_> = rows.iter().map(|row| row.text.as_str()).collect();
        let values: Vec<_> = rows.iter().map(|row| row.value.as_str()).collect();
        let params: [&(dyn ToSql + Sync); 8] =
            [&app(), &users, &sessions, &seqs, &ids, &events, &values, &HASH.as_slice()];
        match self.client.execute(&self.append, &params).await? {
            count if count == rows.len() as u64 => Ok(()),
            count => Err(CellFailure::new(format!("{count} rows were written, not {}", rows.len()))),
        }
    }

    async fn copy(&self, rows: &[EventRow]) -> Result<()> {
        use futures_util::SinkExt;

        let mut text = String::new();
        for row in rows {
            // The JSON is escaped for COPY. It has backslashes only before quotes, and no tab or line break.
            let event = row.text.replace('\\', "\\\\");
            let (app, user, session, seq, id) = (app(), &row.user, &row.session, row.seq, &row.id);
            let hash = "\\\\x0707070707070707070707070707070707070707070707070707070707070707";
            text.push_str(&format!(
                "{app}\t{user}\t{session}\t{seq}\t{id}\t{hash}\te-0\tagent\t1700000000\t1700000000\t{event}\t{seq}\t1\n"
            ));
        }
        let sink = self.client.copy_in::<_, Bytes>(COPY).await?;
        let mut sink = std::pin::pin!(sink);
        sink.send(Bytes::from(text)).await?;
        sink.finish().await?;
        Ok(())
    }

    async fn create(&self, request: &CellRequest) -> Result<Measurement> {
        let CreatedState { text, keys, values } = CreatedState::new(request.size);
        let mut clock = LatencyClock::start(None);
        while clock.elapsed().as_secs_f64() < request.seconds {
            let NewSessions { users, ids } = NewSessions::new(request.tasks);
            let params: [&(dyn ToSql + Sync); 6] = [&app(), &users, &ids, &text, &keys, &values];
            let started = Instant::now();
            self.client.execute(&self.create, &params).await?;
            let elapsed = started.elapsed();
            clock.add(vec![elapsed; ids.len()], elapsed);
        }
        Ok(clock.measured())
    }

    async fn get(&self, request: &CellRequest) -> Result<Measurement> {
        let session = self.store.kept_session(request.size).await?;
        let count: i64 = if request.workload == "get_recent" { 10 } else { i64::MAX };
        let mut clock = LatencyClock::start(None);
        while clock.elapsed().as_secs_f64() < request.seconds {
            let started = Instant::now();
            let rows = self.client.query(&self.get, &[&app(), &session.user_id(), &session.id(), &count]).await?;
            let texts = rows.iter().map(|row| row.try_get(0)).collect::<std::result::Result<Vec<String>, _>>()?;
            if texts.len() as u64 != request.size.min(count.unsigned_abs()) {
                return Err(CellFailure::new(format!("{} events were read", texts.len())));
            }
            clock.add_one(started.elapsed());
        }
        Ok(clock.measured())
    }
}
