-- scratchbook's tables. Values, events and artifacts are JSON text; the text is the truth, never a float or a column
-- beside it. Ids and keys are VARBINARY: compared byte by byte, without folding of case or trailing spaces.
--
-- `{prefix}` is replaced by the prefix of the tables. No statement here is undone by a crash, so each may run again;
-- those that make a view or a procedure are skipped where it is there.

CREATE TABLE IF NOT EXISTS `{prefix}sessions` (
    app_name VARBINARY(512) NOT NULL,
    user_id VARBINARY(512) NOT NULL,
    id VARBINARY(512) NOT NULL,
    seq BIGINT NOT NULL,             -- the number of the last event, 0 where there is none
    create_time BIGINT NOT NULL,     -- microseconds since 1970
    update_time BIGINT NOT NULL,     -- microseconds since 1970: the last event's timestamp
    expire_time BIGINT,              -- microseconds since 1970: from then on it is as if it were not there
    title LONGTEXT,
    labels LONGTEXT,
    token VARBINARY(64) NOT NULL,    -- of its creation: by it a repeated try knows its own work
    user_position BIGINT NOT NULL DEFAULT 0, -- how far the logs were where the fold of its events begins
    app_position BIGINT NOT NULL DEFAULT 0,
    bytes BIGINT NOT NULL DEFAULT 0, -- of the events, and of the state with which their fold begins unless it is empty
    PRIMARY KEY (app_name, user_id, id),
    KEY sessions_by_id (app_name, id), -- whose session it is that has an id
    KEY sessions_of_app (app_name, update_time, user_id, id),
    KEY sessions_of_user (app_name, user_id, update_time, id),
    KEY sessions_by_expiry (expire_time)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Where the fold of a session's events begins: what it was made with, or what pruned events have left. Apart from
-- sessions, because an UPDATE rewrites the row and an append must not cost this state's size.
CREATE TABLE IF NOT EXISTS `{prefix}initial_states` (
    app_name VARBINARY(512) NOT NULL,
    user_id VARBINARY(512) NOT NULL,
    session_id VARBINARY(512) NOT NULL,
    state LONGTEXT NOT NULL,         -- one JSON object
    seq BIGINT NOT NULL,             -- the last event that is folded into it, 0 for none
    forked_at BIGINT,                -- the last event that was copied from another session
    user_position BIGINT NOT NULL,   -- how far the logs were at the session's creation
    app_position BIGINT NOT NULL,
    feed_position BIGINT NOT NULL DEFAULT -1, -- of the creation in the app's feed: -1 not yet, 0 never
    PRIMARY KEY (app_name, user_id, session_id),
    KEY initial_states_by_feed (app_name, feed_position, app_position, user_position),
    KEY initial_states_by_user_feed (app_name, user_id, feed_position)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS `{prefix}events` (
    app_name VARBINARY(512) NOT NULL,
    user_id VARBINARY(512) NOT NULL,
    session_id VARBINARY(512) NOT NULL,
    seq BIGINT NOT NULL,             -- from 1, without gaps
    id VARBINARY(512) NOT NULL,
    hash VARBINARY(32) NOT NULL,     -- of the event as it was sent: tells a retry from another event
    invocation_id VARBINARY(512) NOT NULL,
    author LONGTEXT NOT NULL,
    timestamp DOUBLE NOT NULL,       -- seconds since 1970
    event LONGTEXT NOT NULL,
    user_position BIGINT NOT NULL,   -- how far the user's log was at this commit
    app_position BIGINT NOT NULL,    -- how far the app's log was at this commit
    feed_position BIGINT NOT NULL DEFAULT -1, -- in the app's feed: -1 for none yet, 0 for a copy, which gets none
    PRIMARY KEY (app_name, user_id, session_id, seq),
    UNIQUE KEY events_by_id (app_name, user_id, session_id, id),
    KEY events_by_time (app_name, user_id, session_id, timestamp, seq),
    KEY events_by_feed (app_name, feed_position, app_position, user_position),
    KEY events_by_user_feed (app_name, user_id, feed_position)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The fold of a session's events up to one of them, now and then: a read of an earlier state begins there. Never needed.
CREATE TABLE IF NOT EXISTS `{prefix}checkpoints` (
    app_name VARBINARY(512) NOT NULL,
    user_id VARBINARY(512) NOT NULL,
    session_id VARBINARY(512) NOT NULL,
    seq BIGINT NOT NULL,             -- the last event in it
    state LONGTEXT NOT NULL,         -- JSON: for each key the event that wrote it, and the value
    PRIMARY KEY (app_name, user_id, session_id, seq)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row an owner of shared state, made by the first write. Every write to its keys locks it first, so that its
-- position orders the commits.
CREATE TABLE IF NOT EXISTS `{prefix}users` (
    app_name VARBINARY(512) NOT NULL,
    user_id VARBINARY(512) NOT NULL,
    position BIGINT NOT NULL,        -- of the last commit in the user's log
    pruned_position BIGINT NOT NULL DEFAULT 0, -- what was overwritten below may be gone from the log
    PRIMARY KEY (app_name, user_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS `{prefix}apps` (
    app_name VARBINARY(512) NOT NULL,
    position BIGINT NOT NULL,        -- of the last commit in the app's log
    pruned_position BIGINT NOT NULL DEFAULT 0, -- what was overwritten below may be gone from the log
    PRIMARY KEY (app_name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- A removed key keeps its row with the value NULL; the value null is the text 'null'.
CREATE TABLE IF NOT EXISTS `{prefix}session_states` (
    app_name VARBINARY(512) NOT NULL,
    user_id VARBINARY(512) NOT NULL,
    session_id VARBINARY(512) NOT NULL,
    `key` VARBINARY(1024) NOT NULL,
    value LONGTEXT,
    seq BIGINT NOT NULL,             -- the event that wrote it, 0 for the session's creation
    PRIMARY KEY (app_name, user_id, session_id, `key`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS `{prefix}user_states` (
    app_name VARBINARY(512) NOT NULL,
    user_id VARBINARY(512) NOT NULL,
    `key` VARBINARY(1024) NOT NULL,
    value LONGTEXT,
    version BIGINT NOT NULL,         -- names the row in state_log
    position BIGINT NOT NULL,        -- of that row
    PRIMARY KEY (app_name, user_id, `key`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS `{prefix}app_states` (
    app_name VARBINARY(512) NOT NULL,
    `key` VARBINARY(1024) NOT NULL,
    value LONGTEXT,
    version BIGINT NOT NULL,         -- names the row in state_log
    position BIGINT NOT NULL,        -- of that row
    PRIMARY KEY (app_name, `key`)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row for each write to a user's or an app's key. It survives the session.
CREATE TABLE IF NOT EXISTS `{prefix}state_log` (
    app_name VARBINARY(512) NOT NULL,
    scope VARBINARY(4) NOT NULL,     -- 'user' or 'app'
    user_id VARBINARY(512) NOT NULL, -- whose key it is; '' for the app's
    position BIGINT NOT NULL,        -- of the commit in its owner's log: from 1, by 1
    `key` VARBINARY(1024) NOT NULL,
    version BIGINT NOT NULL,
    value LONGTEXT,                  -- NULL for a removal
    session_user VARBINARY(512),     -- with session_id: which session wrote it; NULL for none
    session_id VARBINARY(512),
    seq BIGINT,
    event_id VARBINARY(512) NOT NULL,
    author LONGTEXT NOT NULL,
    time DOUBLE NOT NULL,
    PRIMARY KEY (app_name, scope, user_id, position, `key`),
    KEY state_log_by_key (app_name, scope, user_id, `key`, position),
    -- Find a user's name in the app's log, so that it can be erased.
    KEY state_log_by_session_user (app_name, scope, session_user),
    KEY state_log_by_author (app_name, scope, author(128))
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row for each commit to a user's or an app's keys that belongs to no event: by it the feed finds its rows in
-- state_log.
CREATE TABLE IF NOT EXISTS `{prefix}state_commits` (
    app_name VARBINARY(512) NOT NULL,
    scope VARBINARY(4) NOT NULL,     -- 'user' or 'app'
    user_id VARBINARY(512) NOT NULL, -- whose keys they are; '' for the app's
    position BIGINT NOT NULL,        -- in its owner's log
    user_position BIGINT NOT NULL,   -- how far the logs were at this commit
    app_position BIGINT NOT NULL,
    feed_position BIGINT NOT NULL DEFAULT -1, -- in the app's feed: -1 for none yet
    PRIMARY KEY (app_name, scope, user_id, position),
    KEY state_commits_by_feed (app_name, feed_position, app_position, user_position),
    KEY state_commits_by_user_feed (app_name, user_id, feed_position)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- How far the feed of an app is numbered. Who numbers it locks the row.
CREATE TABLE IF NOT EXISTS `{prefix}feeds` (
    app_name VARBINARY(512) NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (app_name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row: tells this database from all others, in the cursors of feeds.
CREATE TABLE IF NOT EXISTS `{prefix}database_id` (
    only_row TINYINT NOT NULL,
    id VARBINARY(64) NOT NULL,
    PRIMARY KEY (only_row)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

INSERT IGNORE INTO `{prefix}database_id` (only_row, id) VALUES (1, SHA2(CONCAT(UUID(), RAND()), 256));

CREATE TABLE IF NOT EXISTS `{prefix}artifacts` (
    app_name VARBINARY(512) NOT NULL,
    user_id VARBINARY(512) NOT NULL,
    session_id VARBINARY(512) NOT NULL, -- '' for the user's own
    filename VARBINARY(512) NOT NULL,
    version BIGINT NOT NULL,         -- from 0
    mime_type LONGTEXT,
    custom_metadata LONGTEXT NOT NULL,
    create_time DOUBLE NOT NULL,
    artifact LONGTEXT NOT NULL,
    -- Its index is read in place of texts that may be long.
    bytes BIGINT AS (LENGTH(artifact) + LENGTH(custom_metadata)) VIRTUAL,
    PRIMARY KEY (app_name, user_id, session_id, filename, version),
    KEY artifacts_by_bytes (app_name, user_id, session_id, bytes)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

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

-- Creations whose id has to be unique in its app take turns by these rows, of which each stands for many ids. A row is
-- changed and not only locked, so that two nodes of a cluster do not take it at the same time.
CREATE TABLE IF NOT EXISTS `{prefix}id_turns` (
    slot SMALLINT NOT NULL,          -- a hash of the app and the id
    turns BIGINT NOT NULL,           -- how often it was taken
    PRIMARY KEY (slot)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- One row, which a check that the database can be written to replaces. Nothing reads it.
CREATE TABLE IF NOT EXISTS `{prefix}write_checks` (
    only_row TINYINT NOT NULL,
    filler LONGTEXT NOT NULL,
    PRIMARY KEY (only_row)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- For people at a SQL prompt: each session with its merged state as one JSON object.
CREATE SQL SECURITY INVOKER VIEW `{prefix}session_overview` AS
SELECT
    s.app_name,
    s.user_id,
    s.id AS session_id,
    s.seq,
    CONCAT(
        LEFT(DATE_FORMAT(TIMESTAMPADD(MICROSECOND, s.update_time, '1970-01-01 00:00:00'), '%Y-%m-%dT%H:%i:%s.%f'), 23),
        'Z'
    ) AS update_time,
    -- Put together as texts: JSON's own functions refuse values that are deep, and round numbers.
    CONCAT('{', CONCAT_WS(', ',
        (
            SELECT GROUP_CONCAT(JSON_QUOTE(CONVERT(own.`key` USING utf8mb4)), ': ', own.value SEPARATOR ', ')
            FROM `{prefix}session_states` AS own
            WHERE own.app_name = s.app_name AND own.user_id = s.user_id AND own.session_id = s.id
                AND own.value IS NOT NULL
        ),
        (
            SELECT GROUP_CONCAT(JSON_QUOTE(CONCAT('user:', CONVERT(theirs.`key` USING utf8mb4))), ': ', theirs.value SEPARATOR ', ')
            FROM `{prefix}user_states` AS theirs
            WHERE theirs.app_name = s.app_name AND theirs.user_id = s.user_id AND theirs.value IS NOT NULL
        ),
        (
            SELECT GROUP_CONCAT(JSON_QUOTE(CONCAT('app:', CONVERT(shared.`key` USING utf8mb4))), ': ', shared.value SEPARATOR ', ')
            FROM `{prefix}app_states` AS shared
            WHERE shared.app_name = s.app_name AND shared.value IS NOT NULL
        )
    ), '}') AS state
FROM `{prefix}sessions` AS s;

-- Everything that is written to sessions and state, in one call and one commit. What is to be written comes as arrays
-- of arrays in JSON, NULL where there is nothing. Numbers of this batch are counted from its end ("back"): what they
-- count from is known only under the locks.
--
--   made      the session to make: app, user, id, events, created, updated, token, expiry or null, how many commits to
--             the user's and the app's keys follow its creation, bytes of what is stored, title, labels and initial state
--             or null
--   sessions  to append to, by address: app, user, id, events, updated, bytes of the events
--   owners    users, by address: app, user, commits that change their keys
--   apps      by name: app, commits that change its keys
--   events    app, user, session, back, id, hash, invocation, author, time, back in the user's and the app's log, event
--   own       keys of sessions, each once: app, user, session, key, back, value or null
--   theirs    changes to keys of users: app, user, key, writes to it, back among them, back in the log, session or
--             null, its back, event, author, time, value or null
--   shared    changes to keys of apps: the same, with the user of the session or null
--   moment    the time: what has expired by then is not there
--   begun     0 to begin a transaction, 1 to go on with one
--   most_keys, most_events   how many there may be of a session, a user or an app, or NULL for any number. What brings keys
--             into one that has more is not written, nor what goes beyond the events; keys that are known are not counted
--
-- Times are texts: as numbers of JSON they could lose their last bit.
--
-- What may be long stands last: MariaDB reads an array from its beginning for every column.
--
-- Locks are taken in this order: sessions that exist, users, apps, and each by address, since that is how the arrays are
-- sorted and STRAIGHT_JOIN goes through them. With its user locked, no session is made or removed: so a new session's row
-- is inserted without a wait. It answers with rows (what, place, number, text, hash, of_users, of_apps): 'done'
-- with the last numbers of the sessions and the positions in the logs ("place number,..."), 'made', or why nothing was
-- written: 'taken', 'expired' (taken by a session that has to be removed first), 'missing', 'known', 'damaged', or 'full' with
-- the places of the sessions, users and apps that have no room ("place,...").
DELIMITER //
CREATE PROCEDURE `{prefix}scratchbook_write_1` (
    IN made LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    IN sessions LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    IN owners LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    IN apps LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    IN events LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    IN own LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    IN theirs LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    IN shared LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    IN moment BIGINT,
    IN begun TINYINT,
    IN most_keys BIGINT,
    IN most_events BIGINT
)
MODIFIES SQL DATA
SQL SECURITY INVOKER
BEGIN
    DECLARE found BIGINT;
    DECLARE changed BIGINT;
    -- The places of what is beyond a limit.
    DECLARE full_sessions LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE full_users LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE full_apps LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE after_made_user BIGINT DEFAULT 0;
    DECLARE after_made_app BIGINT DEFAULT 0;
    DECLARE numbers LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE in_users LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE in_apps LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;

    -- It would commit what was begun.
    IF begun = 0 THEN
        START TRANSACTION;
    END IF;
    work: BEGIN
        -- An id in use, of events. Who has it cannot change under the locks. A session that was just made has no rows, so
        -- what stands in its way belongs to none.
        DECLARE EXIT HANDLER FOR 1062
        BEGIN
            IF made IS NOT NULL THEN
                SELECT 'damaged' AS what, 0 AS place, 0 AS number, NULL AS text, NULL AS hash, NULL AS of_users,
                    NULL AS of_apps;
            ELSE
                SELECT 'known' AS what, j.place, e.seq AS number, e.event AS text, e.hash, e.user_position AS of_users,
                    e.app_position AS of_apps
                FROM JSON_TABLE(events, '$[*]' COLUMNS (
                    place FOR ORDINALITY,
                    app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                    user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                    session_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                    id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[4]' ERROR ON ERROR
                )) AS j
                STRAIGHT_JOIN `{prefix}events` AS e FORCE INDEX (events_by_id)
                    ON e.app_name = j.app_name AND e.user_id = j.user_id AND e.session_id = j.session_id
                    AND e.id = j.id;
            END IF;
            ROLLBACK;
        END;

        IF sessions IS NOT NULL THEN
            SELECT COUNT(*), GROUP_CONCAT(j.place, ' ', s.seq + j.events),
                GROUP_CONCAT(IF(s.seq + j.events > most_events, j.place, NULL))
            INTO found, numbers, full_sessions
            FROM JSON_TABLE(sessions, '$[*]' COLUMNS (
                place FOR ORDINALITY,
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                events BIGINT PATH '$[3]' ERROR ON ERROR
            )) AS j
            STRAIGHT_JOIN `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                ON s.app_name = j.app_name AND s.user_id = j.user_id AND s.id = j.id
            WHERE s.expire_time IS NULL OR s.expire_time > moment
            FOR UPDATE /*!80001 OF s */;
            IF found < JSON_LENGTH(sessions) THEN
                SELECT 'missing' AS what, j.place, 0 AS number, NULL AS text, NULL AS hash, NULL AS of_users,
                    NULL AS of_apps
                FROM JSON_TABLE(sessions, '$[*]' COLUMNS (
                    place FOR ORDINALITY,
                    app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                    user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                    id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR
                )) AS j
                WHERE NOT EXISTS (
                    SELECT 1 FROM `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                    WHERE s.app_name = j.app_name AND s.user_id = j.user_id AND s.id = j.id
                        AND (s.expire_time IS NULL OR s.expire_time > moment)
                );
                ROLLBACK;
                LEAVE work;
            END IF;
            IF full_sessions IS NOT NULL THEN
                SELECT 'full' AS what, 0 AS place, 0 AS number, full_sessions AS text, NULL AS hash, NULL AS of_users,
                    NULL AS of_apps;
                ROLLBACK;
                LEAVE work;
            END IF;
            -- All of them are there and locked, so each is a duplicate: an UPDATE of a join is ten times slower.
            INSERT INTO `{prefix}sessions` (app_name, user_id, id, seq, create_time, update_time, token, bytes)
            SELECT j.app_name, j.user_id, j.id, j.events, j.update_time, j.update_time, '', j.bytes
            FROM JSON_TABLE(sessions, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                events BIGINT PATH '$[3]' ERROR ON ERROR,
                update_time BIGINT PATH '$[4]' ERROR ON ERROR,
                bytes BIGINT PATH '$[5]' ERROR ON ERROR
            )) AS j
            ON DUPLICATE KEY UPDATE seq = `{prefix}sessions`.seq + j.events, update_time = j.update_time,
                bytes = `{prefix}sessions`.bytes + j.bytes;
        END IF;

        IF owners IS NOT NULL THEN
            -- Where there is one of them, its position is known without another look.
            DO LAST_INSERT_ID(0);
            INSERT INTO `{prefix}users` (app_name, user_id, position)
            SELECT j.app_name, j.user_id, j.commits
            FROM JSON_TABLE(owners, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                commits BIGINT PATH '$[2]' ERROR ON ERROR
            )) AS j
            ON DUPLICATE KEY UPDATE position = LAST_INSERT_ID(`{prefix}users`.position + j.commits);
            IF LAST_INSERT_ID() > 0 AND JSON_LENGTH(owners) = 1 THEN
                SET in_users = CONCAT('1 ', LAST_INSERT_ID());
            END IF;
        END IF;
        IF apps IS NOT NULL THEN
            -- Where there is one of them, its position is known without another look.
            DO LAST_INSERT_ID(0);
            INSERT INTO `{prefix}apps` (app_name, position)
            SELECT j.app_name, j.commits
            FROM JSON_TABLE(apps, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                commits BIGINT PATH '$[1]' ERROR ON ERROR
            )) AS j
            ON DUPLICATE KEY UPDATE position = LAST_INSERT_ID(`{prefix}apps`.position + j.commits);
            IF LAST_INSERT_ID() > 0 AND JSON_LENGTH(apps) = 1 THEN
                SET in_apps = CONCAT('1 ', LAST_INSERT_ID());
            END IF;
        END IF;

        IF made IS NOT NULL THEN
            SELECT m.user_back, m.app_back INTO after_made_user, after_made_app
            FROM JSON_TABLE(made, '$[*]' COLUMNS (
                user_back BIGINT PATH '$[8]' ERROR ON ERROR,
                app_back BIGINT PATH '$[9]' ERROR ON ERROR
            )) AS m;
            -- With the user locked, an id that is not in use stays free. Only another node of a cluster may take it: in
            -- this block, a duplicate means that.
            BEGIN
                DECLARE EXIT HANDLER FOR 1062 SET found = 1;
                SELECT COUNT(*) INTO found
                FROM JSON_TABLE(made, '$[*]' COLUMNS (
                    app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                    user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                    id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR
                )) AS m
                STRAIGHT_JOIN `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                    ON s.app_name = m.app_name AND s.user_id = m.user_id AND s.id = m.id;
                IF found = 0 THEN
                    INSERT INTO `{prefix}sessions` (app_name, user_id, id, seq, create_time, update_time, expire_time, title,
                        labels, token, user_position, app_position, bytes)
                    SELECT m.app_name, m.user_id, m.id, m.seq, m.create_time, m.update_time, m.expire_time, m.title,
                        m.labels, m.token, COALESCE(u.position, 0) - after_made_user,
                        COALESCE(a.position, 0) - after_made_app, m.bytes
                    FROM JSON_TABLE(made, '$[*]' COLUMNS (
                        app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                        user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                        id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                        seq BIGINT PATH '$[3]' ERROR ON ERROR,
                        create_time BIGINT PATH '$[4]' ERROR ON ERROR,
                        update_time BIGINT PATH '$[5]' ERROR ON ERROR,
                        token VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[6]' ERROR ON ERROR,
                        expire_time BIGINT PATH '$[7]' ERROR ON ERROR,
                        bytes BIGINT PATH '$[10]' ERROR ON ERROR,
                        title LONGTEXT CHARACTER SET utf8mb4 PATH '$[11]' ERROR ON ERROR,
                        labels LONGTEXT CHARACTER SET utf8mb4 PATH '$[12]' ERROR ON ERROR
                    )) AS m
                    LEFT JOIN `{prefix}users` AS u FORCE INDEX (PRIMARY)
                        ON u.app_name = m.app_name AND u.user_id = m.user_id
                    LEFT JOIN `{prefix}apps` AS a FORCE INDEX (PRIMARY)
                        ON a.app_name = m.app_name;
                END IF;
            END;
            IF found > 0 THEN
                SELECT IF(s.token = m.token, 'made', IF(s.expire_time <= moment, 'expired', 'taken')) AS what, 0 AS place,
                    s.seq AS number, NULL AS text, NULL AS hash, NULL AS of_users, NULL AS of_apps
                FROM JSON_TABLE(made, '$[*]' COLUMNS (
                    app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                    user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                    id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                    token VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[6]' ERROR ON ERROR
                )) AS m
                STRAIGHT_JOIN `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                    ON s.app_name = m.app_name AND s.user_id = m.user_id AND s.id = m.id;
                ROLLBACK;
                LEAVE work;
            END IF;
            INSERT INTO `{prefix}initial_states` (app_name, user_id, session_id, state, seq, user_position, app_position)
            SELECT m.app_name, m.user_id, m.id, m.state, 0, s.user_position, s.app_position
            FROM JSON_TABLE(made, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                state LONGTEXT CHARACTER SET utf8mb4 PATH '$[13]' ERROR ON ERROR
            )) AS m
            STRAIGHT_JOIN `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                ON s.app_name = m.app_name AND s.user_id = m.user_id AND s.id = m.id
            WHERE m.state IS NOT NULL;
        END IF;

        IF events IS NOT NULL THEN
            INSERT INTO `{prefix}events` (app_name, user_id, session_id, seq, id, hash, invocation_id, author,
                timestamp, event, user_position, app_position)
            SELECT j.app_name, j.user_id, j.session_id, s.seq - j.back, j.id, UNHEX(j.hash), j.invocation_id, j.author,
                j.timestamp, j.event, COALESCE(u.position, 0) - j.user_back, COALESCE(a.position, 0) - j.app_back
            FROM JSON_TABLE(events, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                session_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                back BIGINT PATH '$[3]' ERROR ON ERROR,
                id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[4]' ERROR ON ERROR,
                hash VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[5]' ERROR ON ERROR,
                invocation_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[6]' ERROR ON ERROR,
                author LONGTEXT CHARACTER SET utf8mb4 PATH '$[7]' ERROR ON ERROR,
                timestamp DOUBLE PATH '$[8]' ERROR ON ERROR,
                event LONGTEXT CHARACTER SET utf8mb4 PATH '$[11]' ERROR ON ERROR,
                user_back BIGINT PATH '$[9]' ERROR ON ERROR,
                app_back BIGINT PATH '$[10]' ERROR ON ERROR
            )) AS j
            STRAIGHT_JOIN `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                ON s.app_name = j.app_name AND s.user_id = j.user_id AND s.id = j.session_id
            LEFT JOIN `{prefix}users` AS u FORCE INDEX (PRIMARY)
                ON u.app_name = j.app_name AND u.user_id = j.user_id
            LEFT JOIN `{prefix}apps` AS a FORCE INDEX (PRIMARY)
                ON a.app_name = j.app_name;
        END IF;

        IF own IS NOT NULL THEN
            DO LAST_INSERT_ID(0);
            INSERT INTO `{prefix}session_states` (app_name, user_id, session_id, `key`, value, seq)
            SELECT j.app_name, j.user_id, j.session_id, j.name, j.value, s.seq - j.back
            FROM JSON_TABLE(own, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                session_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[3]' ERROR ON ERROR,
                value LONGTEXT CHARACTER SET utf8mb4 PATH '$[5]' ERROR ON ERROR,
                back BIGINT PATH '$[4]' ERROR ON ERROR
            )) AS j
            STRAIGHT_JOIN `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                ON s.app_name = j.app_name AND s.user_id = j.user_id AND s.id = j.session_id
            -- LAST_INSERT_ID tells that a key comes back which had been removed.
            ON DUPLICATE KEY UPDATE
                seq = IF(`{prefix}session_states`.value IS NULL AND j.value IS NOT NULL, LAST_INSERT_ID(1), 1) * 0
                    + s.seq - j.back,
                value = j.value;
            SET changed = ROW_COUNT();
            -- Two for each that was there before, so that it is counted only where one is new.
            IF most_keys IS NOT NULL AND sessions IS NOT NULL
                AND (changed <> 2 * JSON_LENGTH(own) OR LAST_INSERT_ID() = 1) THEN
                SELECT GROUP_CONCAT(place) INTO full_sessions FROM (
                    SELECT j.place
                    FROM JSON_TABLE(sessions, '$[*]' COLUMNS (
                        place FOR ORDINALITY,
                        app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                        user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                        id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR
                    )) AS j
                    STRAIGHT_JOIN `{prefix}session_states` AS k FORCE INDEX (PRIMARY)
                        ON k.app_name = j.app_name AND k.user_id = j.user_id AND k.session_id = j.id
                    WHERE k.value IS NOT NULL
                    GROUP BY j.place
                    HAVING COUNT(*) > most_keys
                ) AS too_many;
            END IF;
        END IF;

        IF theirs IS NOT NULL THEN
            DO LAST_INSERT_ID(0);
            INSERT INTO `{prefix}user_states` (app_name, user_id, `key`, value, version, position)
            SELECT j.app_name, j.user_id, j.name, j.value, j.writes, u.position - j.log_back
            FROM JSON_TABLE(theirs, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                value LONGTEXT CHARACTER SET utf8mb4 PATH '$[11]' ERROR ON ERROR,
                writes BIGINT PATH '$[3]' ERROR ON ERROR,
                back BIGINT PATH '$[4]' ERROR ON ERROR,
                log_back BIGINT PATH '$[5]' ERROR ON ERROR
            )) AS j
            STRAIGHT_JOIN `{prefix}users` AS u FORCE INDEX (PRIMARY)
                ON u.app_name = j.app_name AND u.user_id = j.user_id
            WHERE j.back = 0
            ON DUPLICATE KEY UPDATE
                version = IF(`{prefix}user_states`.value IS NULL AND j.value IS NOT NULL, LAST_INSERT_ID(1), 1) * 0
                    + `{prefix}user_states`.version + j.writes,
                value = j.value, position = u.position - j.log_back;
            SET changed = ROW_COUNT();
            -- There are fewer keys than changes where one is changed twice: then it is counted for nothing.
            IF most_keys IS NOT NULL AND (changed <> 2 * JSON_LENGTH(theirs) OR LAST_INSERT_ID() = 1) THEN
                SELECT GROUP_CONCAT(place) INTO full_users FROM (
                    SELECT j.place
                    FROM JSON_TABLE(owners, '$[*]' COLUMNS (
                        place FOR ORDINALITY,
                        app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                        user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR
                    )) AS j
                    STRAIGHT_JOIN `{prefix}user_states` AS k FORCE INDEX (PRIMARY)
                        ON k.app_name = j.app_name AND k.user_id = j.user_id
                    WHERE k.value IS NOT NULL
                    GROUP BY j.place
                    HAVING COUNT(*) > most_keys
                ) AS too_many;
            END IF;
            INSERT INTO `{prefix}state_log` (app_name, scope, user_id, position, `key`, version, value, session_user,
                session_id, seq, event_id, author, time)
            SELECT j.app_name, 'user', j.user_id, u.position - j.log_back, j.name, k.version - j.back, j.value,
                IF(j.session_id IS NULL, NULL, j.user_id), j.session_id, s.seq - j.seq_back, j.event_id, j.author,
                j.time
            FROM JSON_TABLE(theirs, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                value LONGTEXT CHARACTER SET utf8mb4 PATH '$[11]' ERROR ON ERROR,
                back BIGINT PATH '$[4]' ERROR ON ERROR,
                log_back BIGINT PATH '$[5]' ERROR ON ERROR,
                session_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[6]' ERROR ON ERROR,
                seq_back BIGINT PATH '$[7]' ERROR ON ERROR,
                event_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[8]' ERROR ON ERROR,
                author LONGTEXT CHARACTER SET utf8mb4 PATH '$[9]' ERROR ON ERROR,
                time DOUBLE PATH '$[10]' ERROR ON ERROR
            )) AS j
            STRAIGHT_JOIN `{prefix}users` AS u FORCE INDEX (PRIMARY)
                ON u.app_name = j.app_name AND u.user_id = j.user_id
            STRAIGHT_JOIN `{prefix}user_states` AS k FORCE INDEX (PRIMARY)
                ON k.app_name = j.app_name AND k.user_id = j.user_id AND k.`key` = j.name
            LEFT JOIN `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                ON s.app_name = j.app_name AND s.user_id = j.user_id AND s.id = j.session_id;
        END IF;

        IF shared IS NOT NULL THEN
            DO LAST_INSERT_ID(0);
            INSERT INTO `{prefix}app_states` (app_name, `key`, value, version, position)
            SELECT j.app_name, j.name, j.value, j.writes, a.position - j.log_back
            FROM JSON_TABLE(shared, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                value LONGTEXT CHARACTER SET utf8mb4 PATH '$[11]' ERROR ON ERROR,
                writes BIGINT PATH '$[3]' ERROR ON ERROR,
                back BIGINT PATH '$[4]' ERROR ON ERROR,
                log_back BIGINT PATH '$[5]' ERROR ON ERROR
            )) AS j
            STRAIGHT_JOIN `{prefix}apps` AS a FORCE INDEX (PRIMARY)
                ON a.app_name = j.app_name
            WHERE j.back = 0
            ON DUPLICATE KEY UPDATE
                version = IF(`{prefix}app_states`.value IS NULL AND j.value IS NOT NULL, LAST_INSERT_ID(1), 1) * 0
                    + `{prefix}app_states`.version + j.writes,
                value = j.value, position = a.position - j.log_back;
            SET changed = ROW_COUNT();
            -- There are fewer keys than changes where one is changed twice: then it is counted for nothing.
            IF most_keys IS NOT NULL AND (changed <> 2 * JSON_LENGTH(shared) OR LAST_INSERT_ID() = 1) THEN
                SELECT GROUP_CONCAT(place) INTO full_apps FROM (
                    SELECT j.place
                    FROM JSON_TABLE(apps, '$[*]' COLUMNS (
                        place FOR ORDINALITY,
                        app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR
                    )) AS j
                    STRAIGHT_JOIN `{prefix}app_states` AS k FORCE INDEX (PRIMARY)
                        ON k.app_name = j.app_name
                    WHERE k.value IS NOT NULL
                    GROUP BY j.place
                    HAVING COUNT(*) > most_keys
                ) AS too_many;
            END IF;
            INSERT INTO `{prefix}state_log` (app_name, scope, user_id, position, `key`, version, value, session_user,
                session_id, seq, event_id, author, time)
            SELECT j.app_name, 'app', '', a.position - j.log_back, j.name, k.version - j.back, j.value, j.user_id,
                j.session_id, s.seq - j.seq_back, j.event_id, j.author, j.time
            FROM JSON_TABLE(shared, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                value LONGTEXT CHARACTER SET utf8mb4 PATH '$[11]' ERROR ON ERROR,
                back BIGINT PATH '$[4]' ERROR ON ERROR,
                log_back BIGINT PATH '$[5]' ERROR ON ERROR,
                session_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[6]' ERROR ON ERROR,
                seq_back BIGINT PATH '$[7]' ERROR ON ERROR,
                event_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[8]' ERROR ON ERROR,
                author LONGTEXT CHARACTER SET utf8mb4 PATH '$[9]' ERROR ON ERROR,
                time DOUBLE PATH '$[10]' ERROR ON ERROR
            )) AS j
            STRAIGHT_JOIN `{prefix}apps` AS a FORCE INDEX (PRIMARY)
                ON a.app_name = j.app_name
            STRAIGHT_JOIN `{prefix}app_states` AS k FORCE INDEX (PRIMARY)
                ON k.app_name = j.app_name AND k.`key` = j.name
            LEFT JOIN `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                ON s.app_name = j.app_name AND s.user_id = j.user_id AND s.id = j.session_id;
        END IF;

        IF COALESCE(full_sessions, full_users, full_apps) IS NOT NULL THEN
            SELECT 'full' AS what, 0 AS place, 0 AS number, full_sessions AS text, NULL AS hash, full_users AS of_users,
                full_apps AS of_apps;
            ROLLBACK;
            LEAVE work;
        END IF;

        -- What changes keys outside of an event has a place of its own in the feed.
        IF sessions IS NULL AND theirs IS NOT NULL THEN
            INSERT INTO `{prefix}state_commits` (app_name, scope, user_id, position, user_position, app_position)
            SELECT DISTINCT j.app_name, 'user', j.user_id, u.position - j.log_back, u.position - j.log_back,
                COALESCE(a.position, 0) - after_made_app
            FROM JSON_TABLE(theirs, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                log_back BIGINT PATH '$[5]' ERROR ON ERROR,
                event_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[8]' ERROR ON ERROR
            )) AS j
            STRAIGHT_JOIN `{prefix}users` AS u FORCE INDEX (PRIMARY)
                ON u.app_name = j.app_name AND u.user_id = j.user_id
            LEFT JOIN `{prefix}apps` AS a FORCE INDEX (PRIMARY)
                ON a.app_name = j.app_name
            WHERE j.event_id = '';
        END IF;
        IF sessions IS NULL AND shared IS NOT NULL THEN
            INSERT INTO `{prefix}state_commits` (app_name, scope, user_id, position, user_position, app_position)
            SELECT DISTINCT j.app_name, 'app', '', a.position - j.log_back, COALESCE(u.position, 0) - after_made_user,
                a.position - j.log_back
            FROM JSON_TABLE(shared, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                log_back BIGINT PATH '$[5]' ERROR ON ERROR,
                event_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[8]' ERROR ON ERROR
            )) AS j
            STRAIGHT_JOIN `{prefix}apps` AS a FORCE INDEX (PRIMARY)
                ON a.app_name = j.app_name
            LEFT JOIN `{prefix}users` AS u FORCE INDEX (PRIMARY)
                ON u.app_name = j.app_name AND u.user_id = j.user_id
            WHERE j.event_id = '';
        END IF;

        IF owners IS NOT NULL AND in_users IS NULL AND made IS NULL THEN
            SELECT GROUP_CONCAT(j.place, ' ', u.position) INTO in_users
            FROM JSON_TABLE(owners, '$[*]' COLUMNS (
                place FOR ORDINALITY,
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR
            )) AS j
            STRAIGHT_JOIN `{prefix}users` AS u FORCE INDEX (PRIMARY)
                ON u.app_name = j.app_name AND u.user_id = j.user_id;
        END IF;
        IF apps IS NOT NULL AND in_apps IS NULL AND made IS NULL THEN
            SELECT GROUP_CONCAT(j.place, ' ', a.position) INTO in_apps
            FROM JSON_TABLE(apps, '$[*]' COLUMNS (
                place FOR ORDINALITY,
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR
            )) AS j
            STRAIGHT_JOIN `{prefix}apps` AS a FORCE INDEX (PRIMARY)
                ON a.app_name = j.app_name;
        END IF;
        -- The answer comes first: an error after the commit would say that nothing was done.
        SELECT IF(made IS NULL, 'done', 'made') AS what, 0 AS place, 0 AS number, numbers AS text, NULL AS hash,
            in_users AS of_users, in_apps AS of_apps;
        COMMIT;
    END work;
END //
DELIMITER ;

-- Begins a transaction for a write that depends on what is stored: takes its locks, in the order of all writes, and reads
-- what it depends on. scratchbook_write_1 carries it on and commits it.
--
--   new_token    the token of a session to make, or NULL
--   of_app, of_user, of_session   whose keys are meant; no session where none is written to
--   new_event    the id of the event to append, or NULL
--   lock_user, lock_app   whether keys of the user or the app are read or written
--   own, theirs, shared   the names of the keys to read, as arrays in JSON, or NULL
--   moment       the time: what has expired by then is not there
--   begun        0 to begin a transaction, 1 to go on with one
--   scopes       which scopes are read whole, the session's 1, the user's 2, the app's 4; and 8 to count the keys of all
--
-- It answers with rows (what, place, number, text, hash, of_users, of_apps): 'found' with the number of the session's last
-- event, and 'own', 'theirs' or 'shared' for each key that was ever written, with its value and where it was written; for
-- those of a whole scope the hash is the name; 'count' with the number of keys of the scope that is the place. Where
-- there is nothing to write it ends the transaction and says why: 'missing', 'known', 'made', 'taken', 'expired'.
DELIMITER //
CREATE PROCEDURE `{prefix}scratchbook_lock_1` (
    IN new_token VARBINARY(64),
    IN of_app VARBINARY(512),
    IN of_user VARBINARY(512),
    IN of_session VARBINARY(512),
    IN new_event VARBINARY(512),
    IN lock_user BOOLEAN,
    IN lock_app BOOLEAN,
    IN own LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    IN theirs LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    IN shared LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    IN moment BIGINT,
    IN begun TINYINT,
    IN scopes TINYINT
)
MODIFIES SQL DATA
SQL SECURITY INVOKER
BEGIN
    DECLARE last BIGINT DEFAULT 0;
    DECLARE is_answered BOOLEAN DEFAULT FALSE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK;
        RESIGNAL;
    END;

    IF begun = 0 THEN
        START TRANSACTION;
    END IF;
    work: BEGIN
        IF new_token IS NOT NULL THEN
            -- Locked, since the answer must not be older than the commit that took the id.
            SELECT MAX(s.seq) INTO last FROM `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
            WHERE s.app_name = of_app AND s.user_id = of_user AND s.id = of_session
            FOR UPDATE;
            IF last IS NOT NULL THEN
                SELECT IF(s.token = new_token, 'made', IF(s.expire_time <= moment, 'expired', 'taken')) AS what,
                    0 AS place, s.seq AS number, NULL AS text, NULL AS hash, NULL AS of_users, NULL AS of_apps
                FROM `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                WHERE s.app_name = of_app AND s.user_id = of_user AND s.id = of_session;
                SET is_answered = TRUE;
            END IF;
            SET last = 0;
        ELSEIF of_session IS NOT NULL THEN
            SELECT MAX(s.seq) INTO last FROM `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
            WHERE s.app_name = of_app AND s.user_id = of_user AND s.id = of_session
                AND (s.expire_time IS NULL OR s.expire_time > moment)
            FOR UPDATE;
            IF last IS NULL THEN
                SELECT 'missing' AS what, 0 AS place, 0 AS number, NULL AS text, NULL AS hash, NULL AS of_users,
                    NULL AS of_apps;
                SET is_answered = TRUE;
            ELSEIF EXISTS (
                SELECT 1 FROM `{prefix}events` AS e FORCE INDEX (events_by_id)
                WHERE e.app_name = of_app AND e.user_id = of_user AND e.session_id = of_session AND e.id = new_event
            ) THEN
                SELECT 'known' AS what, 0 AS place, e.seq AS number, e.event AS text, e.hash,
                    e.user_position AS of_users, e.app_position AS of_apps
                FROM `{prefix}events` AS e FORCE INDEX (events_by_id)
                WHERE e.app_name = of_app AND e.user_id = of_user AND e.session_id = of_session AND e.id = new_event;
                SET is_answered = TRUE;
            END IF;
        END IF;
        IF is_answered THEN
            ROLLBACK;
            LEAVE work;
        END IF;

        -- The locks of the owners are those of all their keys.
        IF lock_user THEN
            INSERT INTO `{prefix}users` (app_name, user_id, position) VALUES (of_app, of_user, 0)
            ON DUPLICATE KEY UPDATE position = `{prefix}users`.position;
        END IF;
        IF lock_app THEN
            INSERT INTO `{prefix}apps` (app_name, position) VALUES (of_app, 0)
            ON DUPLICATE KEY UPDATE position = `{prefix}apps`.position;
        END IF;

        SELECT 'found' AS what, 0 AS place, last AS number, NULL AS text, NULL AS hash, NULL AS of_users, NULL AS of_apps
        UNION ALL
        SELECT 'own', j.place, k.seq, k.value, NULL, NULL, NULL
        FROM JSON_TABLE(own, '$[*]' COLUMNS (
            place FOR ORDINALITY, name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$' ERROR ON ERROR
        )) AS j
        STRAIGHT_JOIN `{prefix}session_states` AS k FORCE INDEX (PRIMARY)
            ON k.app_name = of_app AND k.user_id = of_user AND k.session_id = of_session AND k.`key` = j.name
        UNION ALL
        SELECT 'theirs', j.place, k.position, k.value, NULL, NULL, NULL
        FROM JSON_TABLE(theirs, '$[*]' COLUMNS (
            place FOR ORDINALITY, name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$' ERROR ON ERROR
        )) AS j
        STRAIGHT_JOIN `{prefix}user_states` AS k FORCE INDEX (PRIMARY)
            ON k.app_name = of_app AND k.user_id = of_user AND k.`key` = j.name
        UNION ALL
        SELECT 'shared', j.place, k.position, k.value, NULL, NULL, NULL
        FROM JSON_TABLE(shared, '$[*]' COLUMNS (
            place FOR ORDINALITY, name VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$' ERROR ON ERROR
        )) AS j
        STRAIGHT_JOIN `{prefix}app_states` AS k FORCE INDEX (PRIMARY)
            ON k.app_name = of_app AND k.`key` = j.name
        UNION ALL
        SELECT 'own', 0, k.seq, k.value, k.`key`, NULL, NULL
        FROM `{prefix}session_states` AS k FORCE INDEX (PRIMARY)
        WHERE scopes & 1 AND k.app_name = of_app AND k.user_id = of_user AND k.session_id = of_session
            AND k.value IS NOT NULL
        UNION ALL
        SELECT 'theirs', 0, k.position, k.value, k.`key`, NULL, NULL
        FROM `{prefix}user_states` AS k FORCE INDEX (PRIMARY)
        WHERE scopes & 2 AND k.app_name = of_app AND k.user_id = of_user AND k.value IS NOT NULL
        UNION ALL
        SELECT 'shared', 0, k.position, k.value, k.`key`, NULL, NULL
        FROM `{prefix}app_states` AS k FORCE INDEX (PRIMARY)
        WHERE scopes & 4 AND k.app_name = of_app AND k.value IS NOT NULL
        UNION ALL
        SELECT 'count', 1, COUNT(*), NULL, NULL, NULL, NULL
        FROM `{prefix}session_states` AS k FORCE INDEX (PRIMARY)
        WHERE scopes & 8 AND k.app_name = of_app AND k.user_id = of_user AND k.session_id = of_session
            AND k.value IS NOT NULL
        UNION ALL
        SELECT 'count', 2, COUNT(*), NULL, NULL, NULL, NULL
        FROM `{prefix}user_states` AS k FORCE INDEX (PRIMARY)
        WHERE scopes & 8 AND k.app_name = of_app AND k.user_id = of_user AND k.value IS NOT NULL
        UNION ALL
        SELECT 'count', 3, COUNT(*), NULL, NULL, NULL, NULL
        FROM `{prefix}app_states` AS k FORCE INDEX (PRIMARY)
        WHERE scopes & 8 AND k.app_name = of_app AND k.value IS NOT NULL;
    END work;
END //
DELIMITER ;
