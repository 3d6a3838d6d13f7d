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

-- The position is the number of the row, which every index ends with.
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
