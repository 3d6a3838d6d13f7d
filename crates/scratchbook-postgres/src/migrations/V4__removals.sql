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
