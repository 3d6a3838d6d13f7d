//! The statements for point-in-time state, forks, feeds, expiry and pruning.

use tokio_postgres::types::Type;

use super::{FLAG, Fill, NUMBER, NUMBERS, Statement, TEXT, TEXTS};

const SESSION_AND_NUMBER: &[Type] = &[TEXT, TEXT, TEXT, NUMBER];
const PAST: &[Type] = &[TEXT, TEXT, TEXT, NUMBER, NUMBER, FLAG, NUMBER];
const COPY: &[Type] = &[TEXT, TEXT, TEXT, TEXT, NUMBER];

statements! {
    /// The statements that read a session's past.
    Pasts(fill) {
        read: Statement = fill.statement(include_str!("../sql/past.sql"), PAST),
        keep: Statement = fill.statement(
            // The lock waits for a deletion, but not for appends. So a deletion either finds the checkpoint or is
            // visible here.
            "WITH session AS MATERIALIZED (
                 SELECT 1 FROM {schema}.sessions
                 WHERE
                     app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3
                     AND token = $6 AND seq >= $4
                 ORDER BY id LIMIT 1 FOR KEY SHARE
             )
             INSERT INTO {schema}.checkpoints (app_name, user_id, session_id, seq, state)
             SELECT $1, $2, $3, $4, $5 FROM session
             ON CONFLICT (app_name, user_id, session_id, seq) DO NOTHING",
            &[TEXT, TEXT, TEXT, NUMBER, TEXT, TEXT],
        ),
        initial: Statement = fill.statement(
            "SELECT i.seq, i.state FROM {schema}.sessions AS s LEFT JOIN LATERAL (
                 SELECT f.seq, f.state FROM {schema}.initial_states AS f
                 WHERE f.app_name = $1 AND f.user_id = $2 AND f.session_id = $3 LIMIT 1
             ) AS i ON true
             WHERE
                 s.app_name = $1 AND s.user_id = $2 AND s.id >= $3 AND s.id <= $3
                 AND (s.expire_time IS NULL OR s.expire_time > $4)
             ORDER BY s.id LIMIT 1",
            SESSION_AND_NUMBER,
        ),
        position: Statement = fill.statement(
            "SELECT s.seq, coalesce(i.seq, 0), CASE WHEN coalesce(i.seq, 0) = $4 THEN s.position ELSE e.position END
             FROM {schema}.sessions AS s LEFT JOIN LATERAL (
                 SELECT f.seq FROM {schema}.initial_states AS f
                 WHERE f.app_name = $1 AND f.user_id = $2 AND f.session_id = $3 LIMIT 1
             ) AS i ON true LEFT JOIN LATERAL (
                 SELECT t.position FROM {schema}.events AS t
                 WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = $3 AND t.seq >= $4 AND t.seq <= $4
                 ORDER BY t.seq LIMIT 1
             ) AS e ON true
             WHERE
                 s.app_name = $1 AND s.user_id = $2 AND s.id >= $3 AND s.id <= $3
                 AND (s.expire_time IS NULL OR s.expire_time > $5)
             ORDER BY s.id LIMIT 1",
            &[TEXT, TEXT, TEXT, NUMBER, NUMBER],
        ),
        blame: Statement = fill.statement(include_str!("../sql/blame.sql"), SESSION_AND_NUMBER),
    }
}

/// The stored size of a session up to the event $4: `bytes` in the row of the session.
pub(super) const STORED: &str = "(
        SELECT coalesce(pg_catalog.sum(pg_catalog.octet_length(event)), 0) FROM {schema}.events
        WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND seq <= $4
    ) + coalesce((
        SELECT pg_catalog.octet_length(state) FROM {schema}.initial_states
        WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND state <> '{}'
    ), 0)";

statements! {
    /// The statements that create a fork.
    Forks(fill) {
        lock: Statement = fill.locking("seq, position, title, labels", "NO KEY UPDATE"),
        time: Statement = fill.statement(
            "SELECT timestamp FROM {schema}.events
             WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND seq >= $4 AND seq <= $4
             ORDER BY seq LIMIT 1",
            SESSION_AND_NUMBER,
        ),
        /// Inserts the row of the fork $5 of the session $3 up to the event $4, unless its id is taken. $6 and $13 are its
        /// keys and their bytes, or NULL if it has all keys of the session.
        insert: Statement = fill.statement(
            &format!(
                "INSERT INTO {{schema}}.sessions (app_name, user_id, id, seq, create_time, update_time, latest,
                     keys, state_bytes, title, labels, token, position, bytes)
                 SELECT $1, $2, $5, $4, $7, $8, coalesce((
                     SELECT e.latest FROM {{schema}}.events AS e
                     WHERE e.app_name = $1 AND e.user_id = $2 AND e.session_id = $3 AND e.seq >= $4 AND e.seq <= $4
                     ORDER BY e.seq LIMIT 1
                 ), 0), coalesce($6, s.keys), coalesce($13, s.state_bytes), $9, $10, $11, $12,
                     {STORED}
                 FROM {{schema}}.sessions AS s WHERE s.app_name = $1 AND s.user_id = $2 AND s.id >= $3 AND s.id <= $3
                 ORDER BY s.id LIMIT 1
                 ON CONFLICT DO NOTHING RETURNING 1"
            ),
            &[TEXT, TEXT, TEXT, NUMBER, TEXT, NUMBER, NUMBER, NUMBER, TEXT, TEXT, TEXT, NUMBER, NUMBER],
        ),
        initial: Statement = fill.statement(include_str!("../sql/fork_initial.sql"), COPY),
        /// Copies the session $3 to the session $4, up to the event $5.
        copies: Vec<Statement> = fill.all(COPIES, COPY),
        /// Writes the keys that were written after the event, with their values at the event.
        keys: Statement = fill.statement(
            "INSERT INTO {schema}.session_states (app_name, user_id, session_id, key, value, bytes, seq)
             SELECT $1, $2, $3, k.key, k.value, pg_catalog.octet_length(k.key) + pg_catalog.octet_length(k.value), k.seq
             FROM unnest($4::text[], $5::text[], $6::bigint[]) AS k (key, value, seq)
             ON CONFLICT (app_name, user_id, session_id, key) DO NOTHING",
            &[TEXT, TEXT, TEXT, TEXTS, TEXTS, NUMBERS],
        ),
    }
}

/// The statements that read change feeds.
#[derive(Debug)]
pub(in super::super) struct FeedStatements {
    pub(in super::super) database_id: Statement,
    pub(in super::super) now: Statement,
    pub(in super::super) of_app: FeedPageStatements,
    pub(in super::super) of_user: FeedPageStatements,
}

/// The statements that read pages of a feed.
#[derive(Debug)]
pub(in super::super) struct FeedPageStatements {
    /// The first page of a window. This statement also has to find the first position.
    pub(in super::super) begin: Statement,
    /// A page after a known position.
    pub(in super::super) go_on: Statement,
}

impl FeedStatements {
    pub(super) fn new(fill: &Fill<'_>) -> Self {
        const FEED: &[Type] = &[TEXT, TEXT, TEXT, TEXT, NUMBER, NUMBER, NUMBER, NUMBER];
        const OF_USER: &str = "t.user_id >= $2 AND t.user_id <= $2";
        // Users and apps have separate statements, because the planner finds no index for a condition that may be
        // trivial. A user's rows are sorted in the order of the index that begins with the user. Without this order the
        // planner would see no difference between this index and the app's index if all rows of the app belonged to one
        // user when its statistics were collected.
        let now = include_str!("../sql/feed_now.sql");
        let pages = |of_user: &str, state_of_user: &str, order: &str| {
            let feed = |first| {
                let sql = include_str!("../sql/feed.sql").replace("{now}", &now.replace("{from}", "$3::pg_snapshot"));
                let sql = sql.replace("{first}", first).replace("{of user}", of_user);
                fill.statement(&sql.replace("{state of user}", state_of_user).replace("{order}", order), FEED)
            };
            FeedPageStatements {
                begin: feed(include_str!("../sql/feed_first.sql")),
                go_on: feed("SELECT $5::bigint AS position"),
            }
        };
        Self {
            database_id: fill.statement("SELECT id FROM {schema}.database_id WHERE one", &[]),
            now: fill.statement(&format!("SELECT ({})::text", now.replace("{from}", "'3:3:'::pg_snapshot")), &[TEXT]),
            of_app: pages("$2 IS NULL", "$2 IS NULL", "t.position"),
            of_user: pages(OF_USER, &format!("t.scope = 'user' AND {OF_USER}"), "t.user_id, t.position"),
        }
    }
}

/// The statements that listen to other processes and notify them.
#[derive(Debug)]
pub(in super::super) struct Listens {
    pub(in super::super) listen: String,
    /// Announces that this process listens.
    pub(in super::super) say: String,
    pub(in super::super) now: String,
    pub(in super::super) notify: Statement,
    /// Sends notices if another process listens, and returns whether one does.
    pub(in super::super) announce: Statement,
}

impl Listens {
    pub(super) fn new(fill: &Fill<'_>) -> Self {
        let name = super::channel(fill.schema);
        let say = "UPDATE {schema}.database_id SET heard_until = pg_catalog.now() + interval '30 seconds' WHERE one";
        Self {
            listen: format!("LISTEN {name}"),
            say: fill.statement(say, &[]).sql,
            now: "SELECT pg_catalog.pg_current_snapshot()::text".to_owned(),
            // The commit does not wait for the disk, because notices that are lost in a crash are covered by polling.
            notify: fill.statement(
                &format!(
                    "SELECT pg_catalog.pg_notify('{name}', sent.text)
                     FROM pg_catalog.set_config('synchronous_commit', 'off', true) AS unflushed,
                         pg_catalog.unnest($1::text[]) AS sent (text)"
                ),
                &[TEXTS],
            ),
            announce: fill.statement(
                &format!(
                    "SELECT listening.heard, (
                         SELECT pg_catalog.count(pg_catalog.pg_notify('{name}', sent.text))
                         FROM pg_catalog.unnest($1::text[]) AS sent (text) WHERE listening.heard
                     )
                     FROM pg_catalog.set_config('synchronous_commit', 'off', true) AS unflushed,
                         (SELECT {{heard}} AS heard) AS listening"
                ),
                &[TEXTS],
            ),
        }
    }
}

statements! {
    /// The statements for expiry and pruning.
    Retention(fill) {
        expired: Statement = fill.statement(
            "SELECT app_name, user_id, id FROM {schema}.sessions
             WHERE expire_time <= $1 ORDER BY expire_time LIMIT $2",
            &[NUMBER, NUMBER],
        ),
        // This lock is stronger than that of an append, so that no checkpoint is written in the meantime.
        lock: Statement = fill.locking("seq", "UPDATE"),
        base: Statement = fill.statement(
            "SELECT seq FROM {schema}.initial_states WHERE app_name = $1 AND user_id = $2 AND session_id = $3",
            &[TEXT, TEXT, TEXT],
        ),
        /// Subtracts the size of the pruned data up to the event $4. The fold then begins with a state of $5 bytes.
        take_off: Statement = fill.statement(
            &format!(
                "INSERT INTO {{schema}}.sessions AS s (app_name, user_id, id, seq, create_time, update_time, token,
                     position, bytes)
                 SELECT $1, $2, $3, 0, 0, 0, '', 0, $5::bigint - ({STORED})
                 ON CONFLICT (app_name, user_id, id) DO UPDATE SET bytes = greatest(s.bytes + excluded.bytes, 0)"
            ),
            &[TEXT, TEXT, TEXT, NUMBER, NUMBER],
        ),
        set_base: Statement = fill.statement(
            "INSERT INTO {schema}.initial_states (app_name, user_id, session_id, seq, state)
             VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (app_name, user_id, session_id)
                 DO UPDATE SET seq = excluded.seq, state = excluded.state",
            &[TEXT, TEXT, TEXT, NUMBER, TEXT],
        ),
        prune: Vec<Statement> = fill.all(PRUNE, SESSION_AND_NUMBER),
        lock_user: Statement = fill.statement(
            "SELECT 1 FROM {schema}.users WHERE app_name = $1 AND user_id = $2 FOR NO KEY UPDATE",
            &[TEXT, TEXT],
        ),
        lock_app: Statement =
            fill.statement("SELECT 1 FROM {schema}.apps WHERE app_name = $1 FOR NO KEY UPDATE", &[TEXT]),
        last_position: Statement = fill.statement(
            "SELECT position FROM {schema}.state_log
             WHERE app_name = $1 AND scope = $2 AND user_id = $3 ORDER BY position DESC, key DESC LIMIT 1",
            &[TEXT, TEXT, TEXT],
        ),
        mark_user: Statement = fill.statement(
            "UPDATE {schema}.users SET pruned_position = greatest(pruned_position, $3)
             WHERE app_name = $1 AND user_id = $2 RETURNING 1",
            &[TEXT, TEXT, NUMBER],
        ),
        mark_app: Statement = fill.statement(
            "UPDATE {schema}.apps SET pruned_position = greatest(pruned_position, $2)
             WHERE app_name = $1 RETURNING 1",
            &[TEXT, NUMBER],
        ),
        prune_log: Statement =
            fill.statement(include_str!("../sql/prune_log.sql"), &[TEXT, TEXT, TEXT, NUMBER, NUMBER]),
        /// Drops at most $2 records of removals that were made before $1.
        let_removals_go: Statement = fill.statement(include_str!("../sql/let_removals_go.sql"), &[NUMBER, NUMBER]),
    }
}

const COPIES: &[&str] = &[
    include_str!("../sql/fork_events.sql"),
    "INSERT INTO {schema}.session_states (app_name, user_id, session_id, key, value, bytes, seq)
     SELECT app_name, user_id, $4, key, value, bytes, seq FROM {schema}.session_states
     WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND seq <= $5 AND value IS NOT NULL",
    "INSERT INTO {schema}.checkpoints (app_name, user_id, session_id, seq, state)
     SELECT app_name, user_id, $4, seq, state FROM {schema}.checkpoints
     WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND seq <= $5",
    "INSERT INTO {schema}.artifacts (app_name, user_id, session_id, filename, version, mime_type, custom_metadata,
         create_time, artifact)
     SELECT app_name, user_id, $4, filename, version, mime_type, custom_metadata, create_time, artifact
     FROM {schema}.artifacts WHERE app_name = $1 AND user_id = $2 AND session_id = $3",
];

const PRUNE: &[&str] = &[
    // The row exists. An upsert makes this an update by the primary key, whatever plan the planner prefers.
    "INSERT INTO {schema}.sessions (app_name, user_id, id, seq, create_time, update_time, token, position)
     SELECT $1, $2, $3, 0, 0, 0, '', e.position FROM (
         SELECT position FROM {schema}.events
         WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND seq >= $4 AND seq <= $4
         ORDER BY seq LIMIT 1
     ) AS e
     ON CONFLICT (app_name, user_id, id) DO UPDATE SET position = excluded.position",
    "DELETE FROM {schema}.events WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND seq <= $4",
    "DELETE FROM {schema}.checkpoints WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND seq <= $4",
];
