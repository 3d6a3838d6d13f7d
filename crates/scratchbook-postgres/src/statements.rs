//! The statements with the schema filled in, and the types of their parameters.
//!
//! Functions are called with the prefix `pg_catalog`. Otherwise a role that can create functions in a schema of the
//! search path could create one that matches better than the server's own, and that function would run with our rights.
//! The connection's search path prevents this as well, but a pooler may not pass the search path on. `unnest` of
//! several arrays is special syntax that works only without the prefix, and always calls the function of `pg_catalog`.

use sha2::{Digest, Sha256};
use tokio_postgres::types::Type;

use scratchbook_core::plan::query::EventQuery;

use history::{FeedStatements, Forks, Listens, Pasts, Retention};
use sessions::ListStatements;
use usage::Usages;

/// Declares the statements of one theme: a struct, and how each of its fields is created.
macro_rules! statements {
    ($(#[$doc:meta])* $theme:ident($fill:ident) { $($(#[$of:meta])* $field:ident: $type:ty = $made:expr,)* }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $theme {
            $($(#[$of])* pub(crate) $field: $type,)*
        }

        impl $theme {
            pub(crate) fn new($fill: &Fill<'_>) -> Self {
                Self { $($field: $made,)* }
            }
        }
    };
}

mod history;
mod sessions;
mod usage;

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
const FLAG: Type = Type::BOOL;
const COUNT: Type = Type::INT4;
const COUNTS: Type = Type::INT4_ARRAY;

const APPEND: &[Type] = &[
    NUMBERS, TEXTS, NUMBERS, TEXTS, TEXTS, NUMBERS, TEXTS, TEXTS, TEXTS, TEXTS, BYTES, TEXTS, TEXTS, FLOATS, NUMBERS,
    TEXTS, TEXTS, TEXTS, TEXTS, NUMBER, NUMBER, NUMBER, NUMBER, NUMBERS, NUMBERS, COUNTS, NUMBERS, NUMBERS, COUNTS,
    NUMBERS, NUMBERS,
];
const CREATE: &[Type] = &[
    NUMBERS, TEXTS, NUMBERS, TEXTS, TEXTS, TEXT, TEXT, TEXT, FLOAT, TEXTS, BYTES, TEXTS, TEXTS, FLOATS, TEXTS, TEXT,
    COUNT, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, TEXT, TEXT, TEXT, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, NUMBER,
    NUMBER,
];
const CREATE_MANY: &[Type] = &[
    TEXTS, TEXTS, TEXTS, TEXTS, NUMBERS, NUMBERS, TEXTS, TEXTS, NUMBERS, NUMBERS, TEXTS, NUMBERS, TEXTS, TEXTS, NUMBERS,
];
const SAVE_ARTIFACT: &[Type] = &[TEXT, TEXT, TEXT, TEXT, TEXT, TEXT, FLOAT, TEXT];
const LOAD_ARTIFACT: &[Type] = &[TEXT, TEXT, TEXT, TEXT, NUMBER, NUMBER];
const PUT: &[Type] = &[NUMBERS, TEXTS, NUMBERS, TEXTS, TEXTS, TEXT, TEXT, TEXT, FLOAT, NUMBER, NUMBER, NUMBER, NUMBER];
const SESSION: &[Type] = &[TEXT, TEXT, TEXT, NUMBER, NUMBER, FLOAT, TEXTS, TEXTS, TEXTS, NUMBER];
const LOG: &[Type] = &[TEXT, TEXT, TEXT, NUMBER, NUMBER];
const NAMES: &[Type; 5] = &[TEXT; 5];

statements! {
    /// All statements of a service.
    Statements(fill) {
        append: Statement = fill.writing(include_str!("sql/append.sql"), APPEND),
        create_many: Statement = fill.statement(include_str!("sql/create_many.sql"), CREATE_MANY),
        /// Locks the session that has an id, and returns its token, its last number and whether it has expired.
        holder: Statement = fill.statement(HOLDER, &[TEXT, TEXT, TEXT, NUMBER]),
        users_with: Statement = fill.by_id(USERS_WITH, &[TEXT, NUMBER, TEXT]),
        other_users_with: Statement = fill.by_id(OTHER_USERS_WITH, &[TEXT, TEXT, TEXT, NUMBER]),
        /// Locks a name until the end of the transaction.
        lock: Statement = fill.statement("SELECT pg_catalog.pg_advisory_xact_lock($1)", &[NUMBER]),
        /// The writes of a check that the database is writable. The only row that they change has 64 KiB, which cannot
        /// be compressed.
        try_write: [Statement; 3] = [
            fill.statement("INSERT INTO {schema}.events SELECT * FROM {schema}.events LIMIT 0", &[]),
            fill.statement("UPDATE {schema}.sessions SET seq = seq WHERE false", &[]),
            fill.statement(
                "INSERT INTO {schema}.write_checks (filler)
                 SELECT pg_catalog.string_agg(pg_catalog.gen_random_uuid()::text, '')
                 FROM pg_catalog.generate_series(1, 1820)
                 ON CONFLICT (one) DO UPDATE SET filler = excluded.filler",
                &[],
            ),
        ],
        create: Statement = fill.writing(include_str!("sql/create.sql"), CREATE),
        /// Inserts the row of an app, and locks nothing if there is one.
        add_app: Statement = fill.statement(
            "INSERT INTO {schema}.apps (app_name) VALUES ($1) ON CONFLICT (app_name) DO NOTHING",
            &NAMES[..1],
        ),
        put_user_state: Statement = fill.writing(include_str!("sql/put_user_state.sql"), PUT),
        put_app_state: Statement = fill.writing(include_str!("sql/put_app_state.sql"), PUT),
        room: Rooms = Rooms::new(fill),
        delete: Deletes = Deletes::new(fill),
        resolve: Resolves = Resolves::new(fill),
        past: Pasts = Pasts::new(fill),
        fork: Forks = Forks::new(fill),
        event_hashes: Statement =
            fill.statement(include_str!("sql/event_hashes.sql"), &[TEXT, TEXT, TEXT, NUMBER, NUMBER, NUMBER]),
        feed: FeedStatements = FeedStatements::new(fill),
        listen: Listens = Listens::new(fill),
        retention: Retention = Retention::new(fill),
        owners: Owners = Owners::new(fill),
        list: ListStatements = ListStatements::new(fill),
        user_state: Statement = fill.statement(USER_STATE, &NAMES[..2]),
        app_state: Statement = fill.statement(APP_STATE, &NAMES[..1]),
        user_page: Statement = fill.statement(USER_PAGE, &[TEXT, TEXT, TEXT, TEXT, TEXT, NUMBER]),
        app_page: Statement = fill.statement(APP_PAGE, &[TEXT, TEXT, TEXT, TEXT, NUMBER]),
        key_changes: Statement = fill.statement(KEY_CHANGES, &[TEXT, TEXT, TEXT, TEXT, NUMBER, NUMBER]),
        state_changes: Statement = fill.statement(include_str!("sql/state_changes.sql"), LOG),
        artifact: Artifacts = Artifacts::new(fill),
        usage: Usages = Usages::new(fill),
        /// The statements that read a session, indexed by the events and the keys that they read.
        sessions: [[Statement; 2]; 5] =
            EVENTS.map(|events| [ALL_KEYS, SOME_KEYS].map(|keys| fill.session(keys, events))),
    }
}

impl Statements {
    /// Creates the statements for the tables in this schema, whose name is quoted.
    pub(super) fn of(schema: &str) -> Self {
        Self::new(&Fill { schema })
    }

    /// Returns the statement that reads a session with these events, and with all keys or only selected ones.
    pub(super) fn session(&self, events: EventQuery, keys: KeySelection) -> &Statement {
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
pub(super) enum KeySelection {
    All = 0,
    Some = 1,
}

/// Returns the channel for notices of commits to the same tables. Its name is a hash, because the name of a schema may
/// be too long.
fn channel(schema: &str) -> String {
    let hash = Sha256::digest(schema);
    let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("scratchbook_{hash}")
}

pub(crate) struct Fill<'a> {
    schema: &'a str,
}

impl Fill<'_> {
    fn statement(&self, sql: &str, types: &'static [Type]) -> Statement {
        let sql = sql.replace("{heard}", HEARD);
        Statement { sql: sql.replace("{schema}", self.schema), types }
    }

    /// Returns a statement that locks the row of a session, if the session has not expired by the time $4, and reads
    /// columns of the row.
    fn locking(&self, columns: &str, lock: &str) -> Statement {
        let sql = format!(
            "SELECT {columns} FROM {{schema}}.sessions
             WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3
                 AND (expire_time IS NULL OR expire_time > $4)
             ORDER BY id LIMIT 1 FOR {lock}"
        );
        self.statement(&sql, &[TEXT, TEXT, TEXT, NUMBER])
    }

    /// Returns a statement that lists the owners after a place in the list. `apps` and `users` are the operators that
    /// compare an app and a user with that place.
    fn owners(&self, apps: &str, users: &str) -> Statement {
        let sql = include_str!("sql/owners.sql").replace("{apps}", apps).replace("{users}", users);
        self.statement(&sql, &[TEXT, TEXT, NUMBER])
    }

    /// Returns statements that run one after the other, with the same parameters.
    fn all(&self, sqls: &[&str], types: &'static [Type]) -> Vec<Statement> {
        sqls.iter().map(|sql| self.statement(sql, types)).collect()
    }

    /// Returns a statement that searches an app for a session's id.
    fn by_id(&self, sql: &str, types: &'static [Type]) -> Statement {
        let sql = sql.replace("{has id}", HAS_ID).replace("{hash}", HASH).replace("{wanted}", WANTED);
        self.statement(&sql, types)
    }

    /// Returns a statement that writes keys.
    fn writing(&self, sql: &str, types: &'static [Type]) -> Statement {
        self.statement(&sql.replace("{changes}", include_str!("sql/changes.sql").trim_end()), types)
    }

    fn session(&self, keys: &str, events: &str) -> Statement {
        self.statement(&[include_str!("sql/session.sql"), keys, events].concat(), SESSION)
    }
}

/// Whether other processes listen for commits.
const HEARD: &str = "(SELECT d.heard_until > pg_catalog.now() FROM {schema}.database_id AS d WHERE d.one)";

const USERS_WITH: &str = "SELECT s.user_id FROM {schema}.sessions AS s
    WHERE {has id} AND CASE WHEN s.app_name = $1 AND s.id = $3
        AND (s.expire_time IS NULL OR s.expire_time > $2) THEN true ELSE false END LIMIT 2";

const OTHER_USERS_WITH: &str = "SELECT 1 FROM {schema}.sessions AS s
    WHERE {has id} AND CASE WHEN s.app_name = $1 AND s.id = $3 AND s.user_id <> $2
        AND (s.expire_time IS NULL OR s.expire_time > $4) THEN true ELSE false END LIMIT 1";

/// The condition for the index by id: sessions with the id $3 in the app $1, and perhaps others with the same hash. The
/// comparison occurs three times so that the planner expects few rows in a young table as well. If the planner expected
/// several rows, the server would read all of them before it returns the first. The other conditions are in a CASE, so
/// that no other index matches.
const HAS_ID: &str = "{hash} = {wanted} AND {hash} >= {wanted} AND {hash} <= {wanted}";
const HASH: &str = "pg_catalog.hashtextextended(s.app_name, pg_catalog.hashtextextended(s.id, 0))";
const WANTED: &str = "pg_catalog.hashtextextended($1 COLLATE \"C\", pg_catalog.hashtextextended($3 COLLATE \"C\", 0))";

const HOLDER: &str = "SELECT token, seq, expire_time <= $4 FROM {schema}.sessions
    WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3 ORDER BY id LIMIT 1 FOR UPDATE";

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

statements! {
    /// The statements that list owners: all, those after an app, and those after a user.
    Owners(fill) {
        all: Statement = fill.owners(">=", ">="),
        after_app: Statement = fill.owners(">", ">="),
        after_user: Statement = fill.owners(">", ">"),
    }
}

statements! {
    /// The statements that remove a session or a user.
    Deletes(fill) {
        lock_session: Statement = fill.statement(
            "SELECT seq FROM {schema}.sessions
             WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3 ORDER BY id LIMIT 1 FOR UPDATE",
            &NAMES[..3],
        ),
        lock_expired: Statement = fill.statement(
            "SELECT seq FROM {schema}.sessions
             WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3 AND expire_time <= $4
             ORDER BY id LIMIT 1 FOR UPDATE",
            &[TEXT, TEXT, TEXT, NUMBER],
        ),
        // This is the weakest lock, and it waits for none of our other locks. Unlike the mere assignment of a
        // transaction number, it is written to the server's log, so that the commit has to be replicated.
        touch_app: Statement =
            fill.statement("SELECT 1 FROM {schema}.apps WHERE app_name = $1 FOR KEY SHARE", &NAMES[..1]),
        of_session: Vec<Statement> = fill.all(
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
        lock_sessions: Statement = fill.statement(
            "SELECT 1 FROM {schema}.sessions WHERE app_name = $1 AND user_id = $2 ORDER BY id FOR UPDATE",
            &NAMES[..2],
        ),
        // A row that does not exist cannot be locked: a user that is created meanwhile would be removed without a lock,
        // and two such deletions and a creation can deadlock. So the user is created first.
        lock_user: Statement = fill.statement(
            "INSERT INTO {schema}.users (app_name, user_id) VALUES ($1, $2)
             ON CONFLICT (app_name, user_id) DO UPDATE SET user_id = excluded.user_id WHERE false RETURNING 1",
            &NAMES[..2],
        ),
        lock_new_sessions: Statement = fill.statement(
            "SELECT 1 FROM {schema}.sessions WHERE app_name = $1 AND user_id = $2 FOR UPDATE NOWAIT",
            &NAMES[..2],
        ),
        /// Records the removal of the session $3 or, without a session, of the user: the kind, the count and the time.
        record: Statement =
            fill.statement(include_str!("sql/record_removal.sql"), &[TEXT, TEXT, TEXT, TEXT, NUMBER, NUMBER]),
        /// Returns whether a user has data other than sessions.
        has_more: Statement = fill.statement(
            "(SELECT 1 FROM {schema}.artifacts WHERE app_name = $1 AND user_id = $2 LIMIT 1)
             UNION ALL (
                 SELECT 1 FROM {schema}.removals
                 WHERE app_name = $1 AND user_id >= $2 AND user_id <= $2 AND session_id <> ''
                 ORDER BY user_id, position LIMIT 1
             )",
            &NAMES[..2],
        ),
        of_user: Vec<Statement> = fill.all(
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

statements! {
    /// The statements that lock and read before a write.
    Resolves(fill) {
        lock_session: Statement = fill.locking("seq, create_time", "NO KEY UPDATE"),
        lock_app: Statement = fill.statement(
            "INSERT INTO {schema}.apps (app_name) VALUES ($1)
             ON CONFLICT (app_name) DO UPDATE SET app_name = excluded.app_name WHERE false",
            &NAMES[..1],
        ),
        known: Statement = fill.statement(
            "SELECT seq, event, hash, position FROM {schema}.events
             WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND id >= $4 AND id <= $4 ORDER BY id LIMIT 1",
            &NAMES[..4],
        ),
        keys: Statement = fill.statement(include_str!("sql/resolve_keys.sql"), &[TEXT, TEXT, TEXT, TEXTS, TEXTS]),
        all_own: Statement = fill.statement(
            "SELECT key, value, seq FROM {schema}.session_states
             WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND value IS NOT NULL",
            &NAMES[..3],
        ),
        all_of_user: Statement = fill.statement(
            "SELECT key, value, position FROM {schema}.user_states
             WHERE app_name = $1 AND user_id = $2 AND value IS NOT NULL",
            &NAMES[..2],
        ),
        all_of_app: Statement = fill.statement(
            "SELECT key, value, position FROM {schema}.app_states WHERE app_name = $1 AND value IS NOT NULL",
            &NAMES[..1],
        ),
        event_writer: Statement = fill.statement(
            "SELECT author, id, timestamp, invocation_id FROM {schema}.events
             WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND seq >= $4 AND seq <= $4
             ORDER BY seq LIMIT 1",
            &[TEXT, TEXT, TEXT, NUMBER],
        ),
        log_writer: Statement = fill.statement(
            "SELECT author, event_id, time, session_user_id, session_id, seq FROM {schema}.state_log
             WHERE app_name = $1 AND scope = $2 AND user_id = $3 AND position = $4 AND key = $5",
            &[TEXT, TEXT, TEXT, NUMBER, TEXT],
        ),
    }
}

statements! {
    /// The statements that read the counters of a scope: its keys and their bytes.
    Rooms(fill) {
        of_session: Statement = fill.statement(
            "SELECT keys, state_bytes FROM {schema}.sessions
             WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3 ORDER BY id LIMIT 1",
            &NAMES[..3],
        ),
        of_user: Statement =
            fill.statement("SELECT keys, bytes FROM {schema}.users WHERE app_name = $1 AND user_id = $2", &NAMES[..2]),
        of_app: Statement = fill.statement("SELECT keys, bytes FROM {schema}.apps WHERE app_name = $1", &NAMES[..1]),
    }
}

statements! {
    /// The statements for artifacts.
    Artifacts(fill) {
        save: Statement = fill.statement(
            "INSERT INTO {schema}.artifacts (app_name, user_id, session_id, filename, version, mime_type,
                 custom_metadata, create_time, artifact)
             VALUES ($1, $2, $3, $4, (
                 SELECT coalesce(pg_catalog.max(version) + 1, 0) FROM {schema}.artifacts
                 WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND filename = $4
             ), $5, $6, $7, $8)
             RETURNING version",
            SAVE_ARTIFACT,
        ),
        load: Statement = fill.statement(
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
            LOAD_ARTIFACT,
        ),
        names: Statement = fill.statement(
            // There are two searches by equality instead of one with IN: in a young table, the planner may read all
            // rows of a user for IN.
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
        versions: Statement = fill.statement(
            "SELECT version, mime_type, CASE WHEN $8 THEN custom_metadata ELSE '{}' END, create_time
             FROM {schema}.artifacts
             WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND filename = $4 AND version >= $6
                 AND coalesce((
                     SELECT s.expire_time FROM {schema}.sessions AS s
                     WHERE s.app_name = $1 AND s.user_id = $2 AND s.id >= $3 AND s.id <= $3 ORDER BY s.id LIMIT 1
                 ) > $5, true)
             ORDER BY version LIMIT $7",
            &[TEXT, TEXT, TEXT, TEXT, NUMBER, NUMBER, NUMBER, FLAG],
        ),
        delete: Statement = fill.statement(
            "DELETE FROM {schema}.artifacts
             WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND filename = $4
             RETURNING 1",
            &NAMES[..4],
        ),
    }
}
