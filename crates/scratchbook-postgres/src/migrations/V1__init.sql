-- scratchbook's tables. Values, events and artifacts are JSON text, never json or jsonb: the text is the truth, and
-- jsonb refuses U+0000, reorders keys and rewrites numbers. Ids and keys are compared byte by byte, hence COLLATE "C".
-- The statements run with the schema of the tables as the search path, where others may have planted something: so
-- functions are named with pg_catalog, and operators get the types they are made for.

-- Positions in the feed of all commits. A commit takes one value and counts its events on from there.
CREATE SEQUENCE positions AS bigint INCREMENT BY 1024 MINVALUE 1024 START WITH 1024 CACHE 1 NO CYCLE;

-- One row: which database this is, for the cursors of its feeds; and until when somebody wants to hear of commits.
CREATE TABLE database_id (
    one boolean NOT NULL DEFAULT true CHECK (one),
    id text NOT NULL,
    heard_until timestamp with time zone NOT NULL,
    PRIMARY KEY (one)
);
INSERT INTO database_id (id, heard_until) VALUES (pg_catalog.gen_random_uuid()::text, 'epoch');

-- An owner of keys is a row, so that a writer of its keys can lock it: the log's positions rise in the order of
-- commits then. The counters say whether a write fits into the limits of a scope.
CREATE TABLE apps (
    app_name text COLLATE "C" NOT NULL,
    keys bigint NOT NULL DEFAULT 0,            -- how many of its keys have a value
    bytes bigint NOT NULL DEFAULT 0,           -- of these keys and their values
    pruned_position bigint NOT NULL DEFAULT 0, -- what was overwritten before it may be gone from the log
    PRIMARY KEY (app_name)
);

CREATE TABLE users (
    app_name text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    keys bigint NOT NULL DEFAULT 0,            -- as in apps
    bytes bigint NOT NULL DEFAULT 0,
    pruned_position bigint NOT NULL DEFAULT 0, -- as in apps
    PRIMARY KEY (app_name, user_id)
);

CREATE TABLE sessions (
    app_name text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL CHECK (seq >= 0), -- the number of the last event, 0 where there is none
    create_time bigint NOT NULL,          -- microseconds since 1970
    update_time bigint NOT NULL,          -- microseconds since 1970: the last event's timestamp
    latest double precision NOT NULL DEFAULT 0, -- the greatest timestamp of its events
    keys bigint NOT NULL DEFAULT 0,       -- how many of its keys have a value
    state_bytes bigint NOT NULL DEFAULT 0, -- of these keys and their values
    expire_time bigint,                   -- microseconds since 1970: from then on it is as if it were not there
    title text,
    labels text,
    token text NOT NULL,                  -- tells a creation that is tried again from another of the same id
    position bigint NOT NULL,             -- where in the feed the fold begins: the creation, or the last pruned event
    bytes bigint NOT NULL DEFAULT 0,      -- of the events, and of the state with which the fold begins unless it is empty
    PRIMARY KEY (app_name, user_id, id)
);

CREATE INDEX sessions_of_app ON sessions (app_name, update_time, user_id, id);
CREATE INDEX sessions_of_user ON sessions (app_name, user_id, update_time, id);
CREATE INDEX sessions_by_expiry ON sessions (expire_time) WHERE expire_time IS NOT NULL;

-- Whose session it is that has an id. By a hash of app and id, not by them: an index that begins with the app would look
-- to the planner like those by which sessions are addressed, and reads all users who have the id.
CREATE INDEX sessions_by_id ON sessions (pg_catalog.hashtextextended(app_name, pg_catalog.hashtextextended(id, 0)));

-- Where the fold of a session's events begins; no row for a session that began with nothing. Apart from sessions, because
-- an UPDATE rewrites the whole row and an append must not cost this state's size.
CREATE TABLE initial_states (
    app_name text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    state text NOT NULL,                  -- one JSON object
    seq bigint NOT NULL DEFAULT 0,        -- the number of the last event that was pruned and is in it
    forked_at bigint,                     -- the number of the event at which the session was forked from another
    position bigint,                      -- the feed position of the creation; NULL where the feed does not tell of it
    xid xid8,                             -- the transaction of the creation, as in events
    PRIMARY KEY (app_name, user_id, session_id)
);

CREATE INDEX initial_states_of_feed ON initial_states (app_name, position) WHERE position IS NOT NULL;
CREATE INDEX initial_states_of_user_feed ON initial_states (app_name, user_id, position) WHERE position IS NOT NULL;
CREATE INDEX initial_states_by_xid ON initial_states (app_name, xid, position) WHERE position IS NOT NULL;

-- Folds that are kept, so that no read of an earlier state folds many events. They can all be removed at any time.
CREATE TABLE checkpoints (
    app_name text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,                  -- the number of the last event in it
    state text NOT NULL,                  -- one JSON object: of each key the number of the event that wrote it, and the value
    PRIMARY KEY (app_name, user_id, session_id, seq)
);

CREATE TABLE events (
    app_name text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL CHECK (seq > 0),  -- from 1, without gaps
    id text COLLATE "C" NOT NULL,
    hash bytea NOT NULL,                  -- of the event as it was sent: tells a retry from another event
    invocation_id text NOT NULL,
    author text NOT NULL,
    timestamp double precision NOT NULL,  -- seconds since 1970
    -- The greatest timestamp up to this event. A read of the events from a time on goes back by number, and ends at the first
    -- event where this is earlier. It does without an index, and reads more only after an event from the future.
    latest double precision NOT NULL,
    event text NOT NULL,
    position bigint NOT NULL,             -- the feed position; of an event that a fork has copied that of the original
    xid xid8 NOT NULL,                    -- the transaction, by which a reader of the feed knows what it has seen
    copied boolean NOT NULL DEFAULT false, -- by a fork: the feed does not tell of it
    CONSTRAINT events_by_seq PRIMARY KEY (app_name, user_id, session_id, seq),
    CONSTRAINT events_by_id UNIQUE (app_name, user_id, session_id, id)
);

CREATE INDEX events_of_feed ON events (app_name, position) WHERE NOT copied;
CREATE INDEX events_of_user_feed ON events (app_name, user_id, position) WHERE NOT copied;
CREATE INDEX events_by_xid ON events (app_name, xid, position) WHERE NOT copied;

-- A removed key keeps its row with the value NULL; the value null is the text 'null'. Of an upsert's old row only what is
-- in the new row is returned: so the new one has the bytes of both.
CREATE TABLE session_states (
    app_name text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text,
    bytes int NOT NULL,                   -- of the key and the value, 0 for a removed key
    bytes_before int NOT NULL DEFAULT 0,  -- before the last write
    seq bigint NOT NULL,                  -- the event that wrote it, 0 for the session's creation
    PRIMARY KEY (app_name, user_id, session_id, key)
) WITH (fillfactor = 80);

CREATE TABLE user_states (
    app_name text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text,
    bytes int NOT NULL,                   -- as in session_states
    bytes_before int NOT NULL DEFAULT 0,
    version bigint NOT NULL,              -- names the row in state_log
    position bigint NOT NULL,             -- of that row
    PRIMARY KEY (app_name, user_id, key)
) WITH (fillfactor = 80);

CREATE TABLE app_states (
    app_name text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    value text,
    bytes int NOT NULL,                   -- as in session_states
    bytes_before int NOT NULL DEFAULT 0,
    version bigint NOT NULL,              -- names the row in state_log
    position bigint NOT NULL,             -- of that row
    PRIMARY KEY (app_name, key)
) WITH (fillfactor = 80);

-- One row for each write to a user's or an app's key. It survives the session.
CREATE TABLE state_log (
    app_name text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL CHECK (scope IN ('user', 'app')),
    user_id text COLLATE "C" NOT NULL,    -- whose key it is; '' for the app's
    position bigint NOT NULL,             -- rises from commit to commit of one owner
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    value text,                           -- NULL for a removal
    session_user_id text COLLATE "C",     -- with session_id: which session wrote it; NULL for none
    session_id text COLLATE "C",
    seq bigint,                           -- 0 for the session's creation
    event_id text COLLATE "C" NOT NULL,
    author text COLLATE "C" NOT NULL,
    time double precision NOT NULL,
    xid xid8 NOT NULL,
    PRIMARY KEY (app_name, scope, user_id, position, key)
);

-- One key's past: its value at a position, and its history. The user comes before the scope, so that nobody takes it for
-- an index of an app's log.
CREATE INDEX state_log_by_key ON state_log (app_name, user_id, scope, key, position);

-- What was written by no event, for the feed.
CREATE INDEX state_log_of_feed ON state_log (app_name, position) WHERE event_id = '';
CREATE INDEX state_log_of_user_feed ON state_log (app_name, user_id, position) WHERE scope = 'user' AND event_id = '';
CREATE INDEX state_log_by_xid ON state_log (app_name, xid, position) WHERE event_id = '';

-- These find a user's name in the app's log, so that it can be erased. No user has a longer name.
CREATE INDEX state_log_of_app_by_user ON state_log (app_name, session_user_id) WHERE scope = 'app';
CREATE INDEX state_log_of_app_by_author ON state_log (app_name, author)
    WHERE scope = 'app' AND pg_catalog.octet_length(author) <= 512;

CREATE TABLE artifacts (
    app_name text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL, -- '' for the user's own
    filename text COLLATE "C" NOT NULL,
    version bigint NOT NULL,              -- from 0
    mime_type text,
    custom_metadata text NOT NULL,
    create_time double precision NOT NULL,
    artifact text NOT NULL,
    PRIMARY KEY (app_name, user_id, session_id, filename, version)
);

-- Sessions, users and events that were removed: one row for each session, for each user, and for the pruned events of each
-- session. They are entries of the feed, and hold no value. A row of pruned events goes with its session; the others go
-- with time.
CREATE TABLE removals (
    app_name text COLLATE "C" NOT NULL,
    user_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL, -- '' for a user who was deleted
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('deleted', 'expired', 'pruned', 'erased')),
    count bigint NOT NULL,                -- the last event that went; of a user, how many sessions went
    time bigint NOT NULL,                 -- microseconds since 1970
    position bigint NOT NULL,             -- the feed position
    xid xid8 NOT NULL,                    -- the transaction, as in events
    PRIMARY KEY (app_name, position)
);

CREATE INDEX removals_of_session ON removals (session_id, user_id, app_name);
CREATE INDEX removals_of_user_feed ON removals (app_name, user_id, position);
CREATE INDEX removals_by_xid ON removals (app_name, xid, position);
CREATE INDEX removals_by_time ON removals (time) WHERE kind <> 'pruned';

-- The last transaction of an app whose row was let go: a cursor that does not show it may have missed the row.
CREATE TABLE removal_ends (
    app_name text COLLATE "C" NOT NULL,
    xid xid8 NOT NULL,
    PRIMARY KEY (app_name)
);

-- One row, which a check that the database can be written to replaces. Nothing reads it.
CREATE TABLE write_checks (
    one boolean NOT NULL DEFAULT true CHECK (one),
    filler text NOT NULL,
    PRIMARY KEY (one)
);

-- For people at a SQL prompt: each session with its merged state as one JSON object.
CREATE VIEW session_overview AS
SELECT
    app_name,
    user_id,
    id AS session_id,
    seq,
    pg_catalog.to_char(
        pg_catalog.to_timestamp(update_time::numeric / 1000000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'
    ) AS update_time,
    (
        SELECT coalesce(pg_catalog.json_object_agg(key, value::json ORDER BY scope, key), '{}')
        FROM (
            SELECT 1 AS scope, key, value FROM session_states AS own
            WHERE own.app_name = s.app_name AND own.user_id = s.user_id AND own.session_id = s.id
            UNION ALL
            SELECT 2, 'user:' || key, value FROM user_states AS theirs
            WHERE theirs.app_name = s.app_name AND theirs.user_id = s.user_id
            UNION ALL
            SELECT 3, 'app:' || key, value FROM app_states AS shared
            WHERE shared.app_name = s.app_name
        ) AS merged
        WHERE value IS NOT NULL
    ) AS state
FROM sessions AS s;
