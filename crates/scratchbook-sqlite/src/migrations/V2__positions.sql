-- State at any event, forks, a feed, expiry, and logs that can be cut.

-- Where in state_log a user's or an app's key was written last: an append that is to be refused for being late compares
-- it with what its writer has seen. It stands in the row that a write changes anyway.
ALTER TABLE user_states ADD COLUMN position INTEGER NOT NULL DEFAULT 0;
ALTER TABLE app_states ADD COLUMN position INTEGER NOT NULL DEFAULT 0;

UPDATE user_states SET position = last.position
FROM (
    SELECT app_name, user_id, key, max(position) AS position FROM state_log
    WHERE scope = 'user' GROUP BY app_name, user_id, key
) AS last
WHERE last.app_name = user_states.app_name AND last.user_id = user_states.user_id AND last.key = user_states.key;

UPDATE app_states SET position = last.position
FROM (
    SELECT app_name, key, max(position) AS position FROM state_log
    WHERE scope = 'app' GROUP BY app_name, key
) AS last
WHERE last.app_name = app_states.app_name AND last.key = app_states.key;

-- What one key was at a position, and its history.
CREATE INDEX state_log_by_key ON state_log (app_name, scope, user_id, key, position);

-- What of the log is in the feed for itself: events bring their own changes with them.
CREATE INDEX state_log_without_event ON state_log (app_name, position) WHERE seq IS NULL OR seq = 0;

-- Where the fold of a session begins: with its creation, or with the last event that was pruned. sessions.position is
-- where that stands in the feed; of a fork, where it stood for the original.
ALTER TABLE initial_states ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;       -- the last event that is folded in
ALTER TABLE initial_states ADD COLUMN position INTEGER NOT NULL DEFAULT 0;  -- the feed position of the creation
ALTER TABLE initial_states ADD COLUMN forked_at INTEGER;                    -- of a fork: the original's event it ends at

UPDATE initial_states SET position = created.position
FROM sessions AS created
WHERE created.app_name = initial_states.app_name AND created.user_id = initial_states.user_id
    AND created.id = initial_states.session_id;

CREATE INDEX initial_states_by_position ON initial_states (app_name, position);

-- Of an event that a fork has copied: the feed position of the original's commit. A copy is not in the feed.
ALTER TABLE events ADD COLUMN log_position INTEGER;

-- An update of a session's numbers does not touch this.
CREATE INDEX sessions_by_expiry ON sessions (expire_time) WHERE expire_time IS NOT NULL;

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

-- How far the log of a user's or an app's state was pruned: what it was before that position is not known any more.
CREATE TABLE pruned_logs (
    app_name TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('user', 'app')),
    user_id TEXT NOT NULL,           -- '' for the app's
    position INTEGER NOT NULL,
    PRIMARY KEY (app_name, scope, user_id)
) STRICT, WITHOUT ROWID;

-- Cursors of a feed name the database they are of.
CREATE TABLE database_id (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    id TEXT NOT NULL
) STRICT;

INSERT INTO database_id VALUES (1, lower(hex(randomblob(16))));
