-- scratchbook's tables. Values, events and artifacts are JSON text; the text is the truth, never a float or a
-- column beside it. Ids and keys are compared byte by byte, which is what SQLite's BINARY collation does.

CREATE TABLE sessions (
    app_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,            -- the number of the last event, 0 where there is none
    create_time INTEGER NOT NULL,    -- microseconds since 1970
    update_time INTEGER NOT NULL,    -- microseconds since 1970: the last event's timestamp
    expire_time INTEGER,
    title TEXT,
    labels TEXT,
    position INTEGER NOT NULL,       -- the feed position of the creation
    PRIMARY KEY (app_name, user_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_of_app ON sessions (app_name, update_time, user_id, id);
CREATE INDEX sessions_of_user ON sessions (app_name, user_id, update_time, id);

-- Apart from sessions, because an UPDATE rewrites the whole row and an append must not cost this state's size.
CREATE TABLE initial_states (
    app_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    state TEXT NOT NULL,             -- one JSON object
    PRIMARY KEY (app_name, user_id, session_id)
) STRICT;

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
    event TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX events_by_seq ON events (app_name, user_id, session_id, seq);
CREATE UNIQUE INDEX events_by_id ON events (app_name, user_id, session_id, id);
CREATE INDEX events_by_time ON events (app_name, user_id, session_id, timestamp, seq);

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

CREATE TABLE user_states (
    app_name TEXT NOT NULL,
    user_id TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT,
    version INTEGER NOT NULL,        -- names the row in state_log
    PRIMARY KEY (app_name, user_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE app_states (
    app_name TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT,
    version INTEGER NOT NULL,        -- names the row in state_log
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

-- Finds a user's name in the app's log, so that it can be erased.
CREATE INDEX state_log_of_app_by_user ON state_log (app_name, session_user) WHERE scope = 'app';

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

-- The last feed position given out.
CREATE TABLE feed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    position INTEGER NOT NULL
) STRICT;

INSERT INTO feed VALUES (1, 0);

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
