-- scratchbook's tables. Values, events and artifacts are JSON text; the text is the truth, never a float or a
-- column beside it. Ids and keys are compared byte by byte, which is what SQLite's BINARY collation does.

CREATE TABLE sessions (
    app_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,            -- the number of the last event, 0 if there is none
    create_time INTEGER NOT NULL,    -- microseconds since 1970
    update_time INTEGER NOT NULL,    -- microseconds since 1970: the last event's timestamp
    expire_time INTEGER,
    title TEXT,
    labels TEXT,
    position INTEGER NOT NULL,       -- where the fold begins: the feed position of the creation or of the last pruned event
    bytes INTEGER NOT NULL DEFAULT 0, -- of its events, and of its initial state unless that is empty
    PRIMARY KEY (app_name, user_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_of_app ON sessions (app_name, update_time, user_id, id);
CREATE INDEX sessions_of_user ON sessions (app_name, user_id, update_time, id);
-- An append changes nothing in these two.
CREATE INDEX sessions_by_id ON sessions (app_name, id);
CREATE INDEX sessions_by_expiry ON sessions (expire_time) WHERE expire_time IS NOT NULL;

-- The state with which the fold of a session begins. Apart from sessions, because an UPDATE rewrites the whole row and an
-- append must not cost this state's size.
CREATE TABLE initial_states (
    app_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    state TEXT NOT NULL,                    -- one JSON object
    seq INTEGER NOT NULL DEFAULT 0,         -- the last event that is folded in
    position INTEGER NOT NULL,              -- the feed position of the creation
    forked_at INTEGER,                      -- of a fork: the event of the original at which it ends
    PRIMARY KEY (app_name, user_id, session_id)
) STRICT;

CREATE INDEX initial_states_by_position ON initial_states (app_name, position);
CREATE INDEX initial_states_of_user ON initial_states (app_name, user_id, position);

CREATE TABLE events (
    position INTEGER PRIMARY KEY,    -- the feed position: orders all commits of this file
    app_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,            -- from 1, without gaps
    id TEXT NOT NULL,
    hash BLOB NOT NULL,              -- of the event as it was sent: tells a retry from another event
    invocation_id TEXT NOT NULL,
    author TEXT NOT NULL,
    timestamp REAL NOT NULL,         -- seconds since 1970
    event TEXT NOT NULL,
    log_position INTEGER             -- of an event that a fork has copied: the original's position. A copy is not in the feed
) STRICT;

CREATE UNIQUE INDEX events_by_seq ON events (app_name, user_id, session_id, seq);
CREATE UNIQUE INDEX events_by_id ON events (app_name, user_id, session_id, id);
CREATE INDEX events_by_time ON events (app_name, user_id, session_id, timestamp, seq);
-- A page of a feed costs what it returns, whatever other apps and other users have committed. The position of an event is
-- the number of its row, with which every index ends.
CREATE INDEX events_of_app ON events (app_name) WHERE log_position IS NULL;
CREATE INDEX events_of_user ON events (app_name, user_id) WHERE log_position IS NULL;

-- A removed key keeps its row with the value NULL; the value null is the text 'null'.
CREATE TABLE session_states (
    app_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT,
    seq INTEGER NOT NULL,            -- the event that wrote it, 0 for the session's creation
    PRIMARY KEY (app_name, user_id, session_id, key)
) STRICT, WITHOUT ROWID;

-- `version` and `position` name the row in state_log that wrote the key last. An append that is to be refused for being
-- late compares the position with what its writer has seen.
CREATE TABLE user_states (
    app_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT,
    version INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (app_name, user_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE app_states (
    app_name TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT,
    version INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (app_name, key)
) STRICT, WITHOUT ROWID;

-- One row for each write to a user's or an app's key. It survives the session.
CREATE TABLE state_log (
    app_name TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('user', 'app')),
    user_id TEXT NOT NULL,           -- whose key it is; '' for the app's
    position INTEGER NOT NULL,       -- the feed position of the commit
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    value TEXT,                      -- NULL for a removal
    session_user TEXT,               -- with session_id: which session wrote it; NULL for none
    session_id TEXT,
    seq INTEGER,
    event_id TEXT NOT NULL,
    author TEXT NOT NULL,
    time REAL NOT NULL,
    PRIMARY KEY (app_name, scope, user_id, position, key)
) STRICT, WITHOUT ROWID;

-- What a key was at a position, and its history.
CREATE INDEX state_log_by_key ON state_log (app_name, scope, user_id, key, position);
-- What of the log is in the feed for itself: events bring their own changes with them.
CREATE INDEX state_log_without_event ON state_log (app_name, position) WHERE seq IS NULL OR seq = 0;
CREATE INDEX state_log_of_user_without_event ON state_log (app_name, user_id, position)
    WHERE scope = 'user' AND (seq IS NULL OR seq = 0);
-- Finds a user's name in the app's log, so that it can be erased.
CREATE INDEX state_log_of_app_by_user ON state_log (app_name, session_user) WHERE scope = 'app';

-- How far the log of a user's or an app's state was pruned: what it was before that position is not known any more.
CREATE TABLE pruned_logs (
    app_name TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('user', 'app')),
    user_id TEXT NOT NULL,           -- '' for the app's
    position INTEGER NOT NULL,
    PRIMARY KEY (app_name, scope, user_id)
) STRICT, WITHOUT ROWID;

-- The fold of a session's events up to one of them, so that no read of an earlier state folds many. Written apart from
-- the commit of the event; never needed.
CREATE TABLE checkpoints (
    app_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    state TEXT NOT NULL,             -- one JSON object: of each key the event that wrote it, and its value
    PRIMARY KEY (app_name, user_id, session_id, seq)
) STRICT;

CREATE TABLE artifacts (
    app_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,        -- '' for the user's own
    filename TEXT NOT NULL,
    version INTEGER NOT NULL,        -- from 0
    mime_type TEXT,
    custom_metadata TEXT NOT NULL,
    create_time REAL NOT NULL,
    artifact TEXT NOT NULL,
    PRIMARY KEY (app_name, user_id, session_id, filename, version)
) STRICT;

-- Sessions, users and events that were removed: one row for each session, for each user, and for the pruned events of each
-- session. They are entries of the feed, and hold no value. A row of pruned events goes with its session; the others go
-- with time.
CREATE TABLE removals (
    position INTEGER PRIMARY KEY,    -- the feed position
    app_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,        -- '' for a user who was deleted
    kind TEXT NOT NULL CHECK (kind IN ('deleted', 'expired', 'pruned', 'erased')),
    count INTEGER NOT NULL,          -- the last event that went; of a user, how many sessions went
    time INTEGER NOT NULL            -- microseconds since 1970
) STRICT;

CREATE INDEX removals_of_app ON removals (app_name);
CREATE INDEX removals_of_user ON removals (app_name, user_id);
CREATE INDEX removals_of_session ON removals (app_name, user_id, session_id);
CREATE INDEX removals_by_time ON removals (time) WHERE kind <> 'pruned';

-- Up to which position rows of an app were let go: a cursor before that may have missed one.
CREATE TABLE removal_ends (
    app_name TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (app_name)
) STRICT, WITHOUT ROWID;

-- The last feed position given out.
CREATE TABLE feed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    position INTEGER NOT NULL
) STRICT;

INSERT INTO feed VALUES (1, 0);

-- Cursors of a feed name the database they are of.
CREATE TABLE database_id (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id TEXT NOT NULL
) STRICT;

INSERT INTO database_id VALUES (1, lower(hex(randomblob(16))));

-- One row, which a check that the database can be written to replaces. Nothing reads it.
CREATE TABLE write_checks (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    filler TEXT NOT NULL
) STRICT;

-- For people at a SQL prompt: each session with its merged state as one JSON object.
CREATE VIEW session_overview AS
SELECT
    app_name,
    user_id,
    id AS session_id,
    seq,
    strftime('%Y-%m-%dT%H:%M:%fZ', update_time / 1000000.0, 'unixepoch') AS update_time,
    (
        SELECT json_group_object(key, json(value))
        FROM (
            SELECT key, value FROM session_states AS own
            WHERE own.app_name = s.app_name AND own.user_id = s.user_id AND own.session_id = s.id
            UNION ALL
            SELECT 'user:' || key, value FROM user_states AS theirs
            WHERE theirs.app_name = s.app_name AND theirs.user_id = s.user_id
            UNION ALL
            SELECT 'app:' || key, value FROM app_states AS shared
            WHERE shared.app_name = s.app_name
        )
        WHERE value IS NOT NULL
    ) AS state
FROM sessions AS s;
