//! The statements with the schema filled in, and the types of their parameters.
//!
//! Functions are called with the prefix `pg_catalog`. Otherwise a role that can create functions in a schema of the
//! search path could create one that matches better than the server's own, and it would run with our rights. The
//! connection's search path excludes this as well, but a pooler may not pass it on. `unnest` of several arrays is
//! special syntax for the function of `pg_catalog`, and works only without the prefix.

mod history;
mod sessions;
mod usage;

use sha2::{Digest, Sha256};
use tokio_postgres::types::Type;

use scratchbook_core::plan::query::EventQuery;

use history::{Feeds, Forks, Listens, Pasts, Retention};
use sessions::Lists;
use usage::Usages;

/// A statement and the types of its parameters, so that preparing it needs no further queries.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) types: &'static [Type],
}

const TEXT: Type = Type::TEXT;
const TEXTS: Type = Type::TEXT_ARRAY;
const NUMBER: Type = Type::INT8;
const NUMBERS: Type = Type::INT8_ARRAY;
const FLOAT: Type = Type::FLOAT8;
const FLOATS: Type = Type::FLOAT8_ARRAY;
const BYTES: Type = Type::BYTEA_ARRAY;

const APPEND: &[Type] = &[
    NUMBERS, TEXTS, NUMBERS, TEXTS, TEXTS, NUMBERS, TEXTS, TEXTS, TEXTS, TEXTS, BYTES, TEXTS, TEXTS, FLOATS, NUMBERS,
    TEXTS, TEXTS, TEXTS, TEXTS, NUMBER, NUMBER, NUMBER,
];
const CREATE: &[Type] = &[
    NUMBERS,
    TEXTS,
    NUMBERS,
    TEXTS,
    TEXTS,
    TEXT,
    TEXT,
    TEXT,
    FLOAT,
    TEXTS,
    BYTES,
    TEXTS,
    TEXTS,
    FLOATS,
    TEXTS,
    TEXT,
    Type::BOOL,
    Type::INT4,
    Type::BOOL,
    NUMBER,
];
const PUT: &[Type] = &[NUMBERS, TEXTS, NUMBERS, TEXTS, TEXTS, TEXT, TEXT, TEXT, FLOAT, NUMBER];
const SESSION: &[Type] = &[TEXT, TEXT, TEXT, NUMBER, NUMBER, FLOAT, NUMBER, NUMBER, TEXTS, TEXTS, TEXTS, NUMBER];
const LOG: &[Type] = &[TEXT, TEXT, TEXT, NUMBER, NUMBER];
const NAMES: &[Type; 5] = &[TEXT; 5];

/// All statements of a service.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) append: Statement,
    pub(super) insert_session: Statement,
    pub(super) insert_unique_session: Statement,
    pub(super) session_token: Statement,
    pub(super) users_with: Statement,
    /// Locks a name until the end of the transaction.
    pub(super) lock: Statement,
    /// The writes of a check that the database is writable. Nothing is changed except a row that is rolled back.
    pub(super) try_write: [Statement; 3],
    pub(super) create: Statement,
    pub(super) put_user_state: Statement,
    pub(super) put_app_state: Statement,
    pub(super) delete: Deletes,
    pub(super) resolve: Resolves,
    pub(super) past: Pasts,
    pub(super) fork: Forks,
    pub(super) feed: Feeds,
    pub(super) listen: Listens,
    pub(super) retention: Retention,
    pub(super) owners: Owners,
    pub(super) list: Lists,
    pub(super) user_state: Statement,
    pub(super) app_state: Statement,
    pub(super) user_page: Statement,
    pub(super) app_page: Statement,
    pub(super) key_changes: Statement,
    pub(super) state_changes: Statement,
    pub(super) artifact: Artifacts,
    pub(super) usage: Usages,
    /// Indexed by which events and which keys they read.
    sessions: [[Statement; 2]; 5],
}

/// The statements that remove a session or a user.
#[derive(Debug)]
pub(super) struct Deletes {
    pub(super) lock_session: Statement,
    pub(super) lock_expired: Statement,
    pub(super) touch_app: Statement,
    pub(super) of_session: Vec<Statement>,
    pub(super) lock_sessions: Statement,
    pub(super) lock_user: Statement,
    pub(super) lock_new_sessions: Statement,
    /// Records the removal of the session $3 or, without a session, of the user: the kind, the count and the time.
    pub(super) record: Statement,
    /// Whether a user has anything besides sessions.
    pub(super) has_more: Statement,
    pub(super) of_user: Vec<Statement>,
}

/// The statements that list owners: all, those after an app, and those after a user.
#[derive(Debug)]
pub(super) struct Owners {
    pub(super) all: Statement,
    pub(super) after_app: Statement,
    pub(super) after_user: Statement,
}

/// The statements that lock and read before a write.
#[derive(Debug)]
pub(super) struct Resolves {
    pub(super) lock_session: Statement,
    pub(super) lock_app: Statement,
    pub(super) known: Statement,
    pub(super) keys: Statement,
    pub(super) all_own: Statement,
    pub(super) all_of_user: Statement,
    pub(super) all_of_app: Statement,
    pub(super) count_own: Statement,
    pub(super) count_user: Statement,
    pub(super) count_app: Statement,
    pub(super) event_writer: Statement,
    pub(super) log_writer: Statement,
}

/// The statements for artifacts.
#[derive(Debug)]
pub(super) struct Artifacts {
    pub(super) save: Statement,
    pub(super) load: Statement,
    pub(super) names: Statement,
    pub(super) versions: Statement,
    pub(super) delete: Statement,
}

impl Statements {
    /// Creates the statements for the tables in this schema, whose name is quoted.
    pub(super) fn new(schema: &str) -> Self {
        let fill = Fill { schema };
        let was = |made: &str| format!("(SELECT pg_catalog.count(*) FROM {made}) = 0");
        Self {
            append: fill.writing(include_str!("sql/append.sql"), APPEND, ["$21", "true", "true"]),
            insert_session: fill.statement(include_str!("sql/insert_session.sql"), INSERT_SESSION),
            insert_unique_session: fill.by_id(include_str!("sql/insert_unique_session.sql"), INSERT_UNIQUE_SESSION),
            session_token: fill.statement(SESSION_TOKEN, &NAMES[..3]),
            users_with: fill.by_id(USERS_WITH, &[TEXT, NUMBER, TEXT]),
            lock: fill.statement("SELECT pg_catalog.pg_advisory_xact_lock($1)", &[NUMBER]),
            try_write: [
                fill.statement("INSERT INTO {schema}.events SELECT * FROM {schema}.events LIMIT 0", &[]),
                fill.statement("UPDATE {schema}.sessions SET seq = seq WHERE false", &[]),
                fill.statement("INSERT INTO {schema}.apps (app_name) VALUES (pg_catalog.gen_random_uuid()::text)", &[]),
            ],
            create: fill.writing(include_str!("sql/create.sql"), CREATE, ["$20", &was("user_row"), &was("app_lock")]),
            put_user_state: fill.writing(include_str!("sql/put_user_state.sql"), PUT, ["$10", &was("owner"), "true"]),
            put_app_state: fill.writing(include_str!("sql/put_app_state.sql"), PUT, ["$10", "true", &was("owner")]),
            delete: Deletes::new(&fill),
            resolve: Resolves::new(&fill),
            past: Pasts::new(&fill),
            fork: Forks::new(&fill),
            feed: Feeds::new(&fill),
            listen: Listens::new(&fill),
            retention: Retention::new(&fill),
            owners: Owners::new(&fill),
            list: Lists::new(&fill),
            user_state: fill.statement(USER_STATE, &NAMES[..2]),
            app_state: fill.statement(APP_STATE, &NAMES[..1]),
            user_page: fill.statement(USER_PAGE, &[TEXT, TEXT, TEXT, TEXT, TEXT, NUMBER]),
            app_page: fill.statement(APP_PAGE, &[TEXT, TEXT, TEXT, TEXT, NUMBER]),
            key_changes: fill.statement(KEY_CHANGES, &[TEXT, TEXT, TEXT, TEXT, NUMBER, NUMBER]),
            state_changes: fill.statement(include_str!("sql/state_changes.sql"), LOG),
            artifact: Artifacts::new(&fill),
            usage: Usages::new(&fill),
            sessions: EVENTS.map(|events| [ALL_KEYS, SOME_KEYS].map(|keys| fill.session(keys, events))),
        }
    }

    /// Returns the statement that reads a session with these events, and with all keys or only selected ones.
    pub(super) fn session(&self, events: EventQuery, keys: Keys) -> &Statement {
        let events = match events {
            EventQuery::None => 0,
            EventQuery::All | EventQuery::After(..) => 1,
            EventQuery::Last(_) | EventQuery::Before(..) => 2,
            EventQuery::Since(_, None) => 3,
            EventQuery::Since(_, Some(_)) => 4,
        };
        &self.sessions[events][keys as usize]
    }
}

/// Whether a statement reads all keys of the state or only selected ones.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keys {
    All = 0,
    Some = 1,
}

/// The channel for notices of commits to the same tables. Its name is a hash, because the name of a schema may be too
/// long.
fn channel(schema: &str) -> String {
    let hash = Sha256::digest(schema);
    let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("scratchbook_{hash}")
}

struct Fill<'a> {
    schema: &'a str,
}

impl Fill<'_> {
    fn statement(&self, sql: &str, types: &'static [Type]) -> Statement {
        let sql = sql.replace("{heard}", HEARD);
        Statement { sql: sql.replace("{schema}", self.schema), types }
    }

    /// A statement that searches an app for a session's id.
    fn by_id(&self, sql: &str, types: &'static [Type]) -> Statement {
        let sql = sql.replace("{has id}", HAS_ID).replace("{hash}", HASH).replace("{wanted}", WANTED);
        self.statement(&sql, types)
    }

    /// A statement that writes keys, with the parameter for the maximum number of rows in a scope, and with the
    /// conditions under which the rows of the user and the app existed before, so that new keys are counted in them.
    fn writing(&self, sql: &str, types: &'static [Type], [limit, user_was, app_was]: [&str; 3]) -> Statement {
        let changes = include_str!("sql/changes.sql").trim_end();
        let sql = sql.replace("{changes}", changes).replace("{limit}", limit);
        self.statement(&sql.replace("{user was there}", user_was).replace("{app was there}", app_was), types)
    }

    fn session(&self, keys: &str, events: &str) -> Statement {
        self.statement(&[include_str!("sql/session.sql"), keys, events].concat(), SESSION)
    }
}

/// Whether other processes listen for commits.
const HEARD: &str = "(SELECT d.heard_until > pg_catalog.now() FROM {schema}.database_id AS d WHERE d.one)";

const INSERT_SESSION: &[Type] = &[TEXT, TEXT, TEXT, NUMBER, NUMBER, NUMBER, TEXT, NUMBER, NUMBER, TEXT, TEXT];

const INSERT_UNIQUE_SESSION: &[Type] =
    &[TEXT, TEXT, TEXT, NUMBER, NUMBER, NUMBER, TEXT, NUMBER, NUMBER, TEXT, TEXT, NUMBER];

const USERS_WITH: &str = "SELECT s.user_id FROM {schema}.sessions AS s
    WHERE {has id} AND CASE WHEN s.app_name = $1 AND s.id = $3
        AND (s.expire_time IS NULL OR s.expire_time > $2) THEN true ELSE false END LIMIT 2";

/// The condition for the index by id: sessions with the id $3 in the app $1, and perhaps others with the same hash. It
/// is repeated three times so that the planner expects few rows in a young table as well; if it expected several, it
/// would read all of them before the first. The other conditions are in a CASE, so that no other index matches.
const HAS_ID: &str = "{hash} = {wanted} AND {hash} >= {wanted} AND {hash} <= {wanted}";
const HASH: &str = "pg_catalog.hashtextextended(s.app_name, pg_catalog.hashtextextended(s.id, 0))";
const WANTED: &str = "pg_catalog.hashtextextended($1 COLLATE \"C\", pg_catalog.hashtextextended($3 COLLATE \"C\", 0))";

const SESSION_TOKEN: &str = "SELECT token FROM {schema}.sessions
    WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3 ORDER BY id LIMIT 1 FOR NO KEY UPDATE";

const USER_STATE: &str = "SELECT key, value FROM {schema}.user_states
    WHERE app_name = $1 AND user_id = $2 AND value IS NOT NULL ORDER BY key";
const APP_STATE: &str = "SELECT key, value FROM {schema}.app_states
    WHERE app_name = $1 AND value IS NOT NULL ORDER BY key";

const USER_PAGE: &str = "SELECT key, value FROM {schema}.user_states
    WHERE app_name = $1 AND user_id = $2 AND key >= $3 AND key < $4 AND key IS DISTINCT FROM $5 AND value IS NOT NULL
    ORDER BY key LIMIT $6";
const APP_PAGE: &str = "SELECT key, value FROM {schema}.app_states
    WHERE app_name = $1 AND key >= $2 AND key < $3 AND key IS DISTINCT FROM $4 AND value IS NOT NULL
    ORDER BY key LIMIT $5";

// The order is that of the index by key, so that no other index matches.
const KEY_CHANGES: &str =
    "SELECT position, key, version, value, session_user_id, session_id, seq, event_id, author, time
    FROM {schema}.state_log
    WHERE app_name = $1 AND scope = $2 AND user_id = $3 AND key >= $4 AND key <= $4 AND position < $5
    ORDER BY key DESC, position DESC LIMIT $6";

const ALL_KEYS: &str = include_str!("sql/session_all_keys.sql");
const SOME_KEYS: &str = include_str!("sql/session_some_keys.sql");
const EVENTS: [&str; 5] = [
    "",
    include_str!("sql/session_events_after.sql"),
    include_str!("sql/session_events_before.sql"),
    include_str!("sql/session_events_since.sql"),
    include_str!("sql/session_events_last_since.sql"),
];

impl Owners {
    fn new(fill: &Fill<'_>) -> Self {
        let after = |apps: &str, users: &str| {
            let sql = include_str!("sql/owners.sql").replace("{apps}", apps).replace("{users}", users);
            fill.statement(&sql, &[TEXT, TEXT, NUMBER])
        };
        Self { all: after(">=", ">="), after_app: after(">", ">="), after_user: after(">", ">") }
    }
}

impl Deletes {
    fn new(fill: &Fill<'_>) -> Self {
        let statements = |sqls: &[&str], types| sqls.iter().map(|sql| fill.statement(sql, types)).collect();
        Self {
            lock_session: fill.statement(
                "SELECT seq FROM {schema}.sessions
                 WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3 ORDER BY id LIMIT 1 FOR UPDATE",
                &NAMES[..3],
            ),
            lock_expired: fill.statement(
                "SELECT seq FROM {schema}.sessions
                 WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3 AND expire_time <= $4
                 ORDER BY id LIMIT 1 FOR UPDATE",
                &[TEXT, TEXT, TEXT, NUMBER],
            ),
            // This is the weakest lock, and it waits for none of our own. It is written to the server's log, unlike a
            // transaction that only has a number.
            touch_app: fill.statement("SELECT 1 FROM {schema}.apps WHERE app_name = $1 FOR KEY SHARE", &NAMES[..1]),
            of_session: statements(
                &[
                    "DELETE FROM {schema}.initial_states WHERE app_name = $1 AND user_id = $2 AND session_id = $3",
                    "DELETE FROM {schema}.session_states WHERE app_name = $1 AND user_id = $2 AND session_id = $3",
                    "DELETE FROM {schema}.checkpoints WHERE app_name = $1 AND user_id = $2 AND session_id = $3",
                    "DELETE FROM {schema}.events WHERE app_name = $1 AND user_id = $2 AND session_id = $3",
                    "DELETE FROM {schema}.artifacts WHERE app_name = $1 AND user_id = $2 AND session_id = $3",
                    // A ctid is unique only within a partition, if the table is partitioned.
                    "WITH place AS MATERIALIZED (
                         SELECT tableoid AS part, ctid AS place FROM {schema}.sessions
                         WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3 ORDER BY id LIMIT 1
                     )
                     DELETE FROM {schema}.sessions
                     WHERE ctid = ANY (ARRAY(SELECT place FROM place)) AND tableoid = (SELECT part FROM place)",
                ],
                &NAMES[..3],
            ),
            lock_sessions: fill.statement(
                "SELECT 1 FROM {schema}.sessions WHERE app_name = $1 AND user_id = $2 ORDER BY id FOR UPDATE",
                &NAMES[..2],
            ),
            lock_user: fill.statement(
                "INSERT INTO {schema}.users (app_name, user_id) VALUES ($1, $2)
                 ON CONFLICT (app_name, user_id) DO UPDATE SET user_id = excluded.user_id WHERE false RETURNING 1",
                &NAMES[..2],
            ),
            lock_new_sessions: fill.statement(
                "SELECT 1 FROM {schema}.sessions WHERE app_name = $1 AND user_id = $2 FOR UPDATE NOWAIT",
                &NAMES[..2],
            ),
            record: fill.statement(include_str!("sql/record_removal.sql"), &[TEXT, TEXT, TEXT, TEXT, NUMBER, NUMBER]),
            has_more: fill.statement(
                "(SELECT 1 FROM {schema}.artifacts WHERE app_name = $1 AND user_id = $2 LIMIT 1)
                 UNION ALL (
                     SELECT 1 FROM {schema}.removals
                     WHERE app_name = $1 AND user_id = $2 AND session_id > '' ORDER BY session_id LIMIT 1
                 )",
                &NAMES[..2],
            ),
            of_user: statements(
                &[
                    "DELETE FROM {schema}.sessions WHERE app_name = $1 AND user_id = $2",
                    "DELETE FROM {schema}.initial_states WHERE app_name = $1 AND user_id = $2",
                    "DELETE FROM {schema}.session_states WHERE app_name = $1 AND user_id = $2",
                    "DELETE FROM {schema}.checkpoints WHERE app_name = $1 AND user_id = $2",
                    "DELETE FROM {schema}.events WHERE app_name = $1 AND user_id = $2",
                    "DELETE FROM {schema}.artifacts WHERE app_name = $1 AND user_id = $2",
                    "DELETE FROM {schema}.user_states WHERE app_name = $1 AND user_id = $2",
                    "DELETE FROM {schema}.state_log WHERE app_name = $1 AND scope = 'user' AND user_id = $2",
                    "UPDATE {schema}.state_log SET session_user_id = NULL, session_id = NULL, seq = NULL
                     WHERE app_name = $1 AND scope = 'app' AND session_user_id = $2",
                    "UPDATE {schema}.state_log SET author = ''
                     WHERE app_name = $1 AND scope = 'app' AND author = $2 AND pg_catalog.octet_length(author) <= 512",
                    "DELETE FROM {schema}.users WHERE app_name = $1 AND user_id = $2",
                ],
                &NAMES[..2],
            ),
        }
    }
}

impl Resolves {
    fn new(fill: &Fill<'_>) -> Self {
        Self {
            lock_session: fill.statement(
                "SELECT seq, create_time FROM {schema}.sessions
                 WHERE
                     app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3
                     AND (expire_time IS NULL OR expire_time > $4)
                 ORDER BY id LIMIT 1 FOR NO KEY UPDATE",
                &[TEXT, TEXT, TEXT, NUMBER],
            ),
            lock_app: fill.statement(
                "INSERT INTO {schema}.apps (app_name) VALUES ($1)
                 ON CONFLICT (app_name) DO UPDATE SET app_name = excluded.app_name WHERE false",
                &NAMES[..1],
            ),
            known: fill.statement(
                "SELECT seq, event, hash, position FROM {schema}.events
                 WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND id >= $4 AND id <= $4 ORDER BY id LIMIT 1",
                &NAMES[..4],
            ),
            keys: fill.statement(include_str!("sql/resolve_keys.sql"), &[TEXT, TEXT, TEXT, TEXTS, TEXTS]),
            all_own: fill.statement(
                "SELECT key, value, seq FROM {schema}.session_states
                 WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND value IS NOT NULL",
                &NAMES[..3],
            ),
            all_of_user: fill.statement(
                "SELECT key, value, position FROM {schema}.user_states
                 WHERE app_name = $1 AND user_id = $2 AND value IS NOT NULL",
                &NAMES[..2],
            ),
            all_of_app: fill.statement(
                "SELECT key, value, position FROM {schema}.app_states WHERE app_name = $1 AND value IS NOT NULL",
                &NAMES[..1],
            ),
            count_own: fill.statement(
                "SELECT pg_catalog.count(value) FROM {schema}.session_states
                 WHERE app_name = $1 AND user_id = $2 AND session_id = $3",
                &NAMES[..3],
            ),
            count_user: fill.statement(
                "SELECT pg_catalog.count(value) FROM {schema}.user_states WHERE app_name = $1 AND user_id = $2",
                &NAMES[..2],
            ),
            count_app: fill.statement(
                "SELECT pg_catalog.count(value) FROM {schema}.app_states WHERE app_name = $1",
                &NAMES[..1],
            ),
            event_writer: fill.statement(
                "SELECT author, id, timestamp, invocation_id FROM {schema}.events
                 WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND seq >= $4 AND seq <= $4
                 ORDER BY seq LIMIT 1",
                &[TEXT, TEXT, TEXT, NUMBER],
            ),
            log_writer: fill.statement(
                "SELECT author, event_id, time, session_user_id, session_id, seq FROM {schema}.state_log
                 WHERE app_name = $1 AND scope = $2 AND user_id = $3 AND position = $4 AND key = $5",
                &[TEXT, TEXT, TEXT, NUMBER, TEXT],
            ),
        }
    }
}

impl Artifacts {
    fn new(fill: &Fill<'_>) -> Self {
        const SAVE: &[Type] = &[TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, FLOAT, TEXT];
        const LOAD: &[Type] = &[TEXT, TEXT, TEXT, TEXT, NUMBER, NUMBER];
        Self {
            save: fill.statement(
                "INSERT INTO {schema}.artifacts (app_name, user_id, session_id, filename, version, mime_type,
                     custom_metadata, create_time, artifact)
                 VALUES ($1, $2, $3, $4, (
                     SELECT coalesce(pg_catalog.max(version) + 1, 0) FROM {schema}.artifacts
                     WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND filename = $4
                 ), $5, $6, $7, $8)
                 RETURNING version",
                SAVE,
            ),
            load: fill.statement(
                "SELECT version, artifact FROM {schema}.artifacts
                 WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND filename = $4
                     AND version = coalesce($5, (
                         SELECT pg_catalog.max(version) FROM {schema}.artifacts
                         WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND filename = $4
                     ))
                     AND coalesce((
                         SELECT s.expire_time FROM {schema}.sessions AS s
                         WHERE s.app_name = $1 AND s.user_id = $2 AND s.id >= $3 AND s.id <= $3 ORDER BY s.id LIMIT 1
                     ) > $6, true)",
                LOAD,
            ),
            names: fill.statement(
                // There are two searches by equality: for a search with IN, the planner may read all rows of a user in
                // a young table.
                "SELECT filename FROM {schema}.artifacts
                 WHERE app_name = $1 AND user_id = $2 AND session_id = $3
                     AND coalesce((
                         SELECT s.expire_time FROM {schema}.sessions AS s
                         WHERE s.app_name = $1 AND s.user_id = $2 AND s.id >= $3 AND s.id <= $3 ORDER BY s.id LIMIT 1
                     ) > $4, true)
                 UNION
                 SELECT filename FROM {schema}.artifacts
                 WHERE app_name = $1 AND user_id = $2 AND session_id = ''
                 ORDER BY filename",
                &[TEXT, TEXT, TEXT, NUMBER],
            ),
            versions: fill.statement(
                "SELECT version, mime_type, custom_metadata, create_time FROM {schema}.artifacts
                 WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND filename = $4
                     AND coalesce((
                         SELECT s.expire_time FROM {schema}.sessions AS s
                         WHERE s.app_name = $1 AND s.user_id = $2 AND s.id >= $3 AND s.id <= $3 ORDER BY s.id LIMIT 1
                     ) > $5, true)
                 ORDER BY version",
                &[TEXT, TEXT, TEXT, TEXT, NUMBER],
            ),
            delete: fill.statement(
                "DELETE FROM {schema}.artifacts
                 WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND filename = $4
                 RETURNING 1",
                &NAMES[..4],
            ),
        }
    }
}
