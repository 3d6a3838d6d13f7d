-- Sessions, users and events that were removed: one row for each session, for each user, and for the pruned events of each
-- session. They are entries of the feed, and hold no value. A row of pruned events goes with its session; the others go
-- with time.
CREATE TABLE IF NOT EXISTS `{prefix}removals` (
    app_name VARBINARY(512) NOT NULL,
    user_id VARBINARY(512) NOT NULL,
    session_id VARBINARY(512) NOT NULL, -- '' for a user who was deleted
    kind VARBINARY(16) NOT NULL,     -- 'deleted', 'expired', 'pruned' or 'erased'
    pruned TINYINT NOT NULL,         -- 1 for 'pruned', which may stand beside another of its session
    count BIGINT NOT NULL,           -- the last event that went; of a user, how many sessions went
    time BIGINT NOT NULL,            -- microseconds since 1970
    user_position BIGINT NOT NULL,   -- how far the user's log was at this commit; 0 for a user who was deleted
    app_position BIGINT NOT NULL,    -- how far the app's log was at this commit
    feed_position BIGINT NOT NULL DEFAULT -1, -- in the app's feed: -1 for none yet
    PRIMARY KEY (app_name, user_id, session_id, pruned),
    KEY removals_by_feed (app_name, feed_position, app_position, user_position),
    KEY removals_by_user_feed (app_name, user_id, feed_position),
    KEY removals_by_time (pruned, time, app_name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Up to which place in the feed of an app rows were let go: a cursor before that may have missed one.
CREATE TABLE IF NOT EXISTS `{prefix}removal_ends` (
    app_name VARBINARY(512) NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (app_name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
