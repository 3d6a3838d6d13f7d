-- How much is stored. An append adds to it in the row of the session, which it writes anyway.
--
-- No server takes back a column that was made, and not every one knows IF NOT EXISTS for it.
SET @add_bytes = IF(
    EXISTS (
        SELECT 1 FROM information_schema.COLUMNS
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{prefix}sessions' AND COLUMN_NAME = 'bytes'
    ),
    'DO 0',
    'ALTER TABLE `{prefix}sessions` ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0'
);

PREPARE add_bytes FROM @add_bytes;

EXECUTE add_bytes;

DEALLOCATE PREPARE add_bytes;

-- Of events, and of the state with which their fold begins unless that is empty.
UPDATE `{prefix}sessions` AS s
LEFT JOIN (
    SELECT app_name, user_id, session_id, SUM(LENGTH(event)) AS bytes FROM `{prefix}events`
    GROUP BY app_name, user_id, session_id
) AS e ON e.app_name = s.app_name AND e.user_id = s.user_id AND e.session_id = s.id
LEFT JOIN `{prefix}initial_states` AS i
    ON i.app_name = s.app_name AND i.user_id = s.user_id AND i.session_id = s.id AND i.state <> '{}'
SET s.bytes = COALESCE(e.bytes, 0) + COALESCE(LENGTH(i.state), 0);

-- Of each version of an artifact, with what is kept beside it. Its index is read in place of texts that may be long.
SET @add_bytes = IF(
    EXISTS (
        SELECT 1 FROM information_schema.COLUMNS
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{prefix}artifacts' AND COLUMN_NAME = 'bytes'
    ),
    'DO 0',
    'ALTER TABLE `{prefix}artifacts`
        ADD COLUMN bytes BIGINT AS (LENGTH(artifact) + LENGTH(custom_metadata)) VIRTUAL,
        ADD KEY artifacts_by_bytes (app_name, user_id, session_id, bytes)'
);

PREPARE add_bytes FROM @add_bytes;

EXECUTE add_bytes;

DEALLOCATE PREPARE add_bytes;

-- scratchbook_write_1 stays for older programs that are still running, whose events are not counted.
--
-- Everything that is written to sessions and state, in one call and one commit. What is to be written comes as arrays
-- of arrays in JSON, NULL where there is nothing. Numbers of this batch are counted from its end ("back"): what they
-- count from is known only under the locks.
--
--   made      the session to make: app, user, id, events, created, updated, token, expiry or null, how many commits to
--             the user's and the app's keys follow its creation, bytes of what is stored, initial state or null
--   sessions  to append to, by address: app, user, id, events, updated, bytes of the events
--   owners    users, by address: app, user, commits that change their keys
--   apps      by name: app, commits that change its keys
--   events    app, user, session, back, id, hash, invocation, author, time, back in the user's and the app's log, event
--   own       keys of sessions, each once: app, user, session, key, back, value or null
--   theirs    changes to keys of users: app, user, key, writes to it, back among them, back in the log, session or
--             null, its back, event, author, time, value or null
--   shared    changes to keys of apps: the same, with the user of the session or null
--   moment    the time: what has expired by then is not there
--   begun     0 to begin a transaction, 1 to go on with one, 2 where scratchbook_lock_1 has made the session's row in it
--   most_keys, most_events   how many there may be of a session, a user or an app, or NULL for any number. What brings keys
--             into one that has more is not written, nor what goes beyond the events; keys that are known are not counted
--
-- Times are texts: as numbers of JSON they could lose their last bit.
--
-- What may be long stands last: MariaDB reads an array from its beginning for every column.
--
-- Locks are taken in this order: sessions, users, apps, and each by address, since that is how the arrays are sorted
-- and STRAIGHT_JOIN goes through them. It answers with rows (what, place, number, text, hash, of_users, of_apps): 'done'
-- with the last numbers of the sessions and the positions in the logs ("place number,..."), 'made', or why nothing was
-- written: 'taken', 'expired' (taken by a session that has to be removed first), 'missing', 'known', 'full', 'damaged'.
DELIMITER //
CREATE PROCEDURE `{prefix}scratchbook_write_2` (
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
    DECLARE newest BIGINT;
    DECLARE changed BIGINT;
    DECLARE is_full BOOLEAN DEFAULT FALSE;
    DECLARE after_made_user BIGINT DEFAULT 0;
    DECLARE after_made_app BIGINT DEFAULT 0;
    DECLARE is_answered BOOLEAN DEFAULT FALSE;
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

        IF made IS NOT NULL AND begun < 2 THEN
            -- A block of its own: in this statement alone a duplicate means that the session's id is in use.
            BEGIN
                DECLARE EXIT HANDLER FOR 1062
                BEGIN
                    SELECT IF(s.token = m.token, 'made', IF(s.expire_time <= moment, 'expired', 'taken')) AS what, 0 AS place, s.seq AS number, NULL AS text,
                        NULL AS hash, NULL AS of_users, NULL AS of_apps
                    FROM JSON_TABLE(made, '$[*]' COLUMNS (
                        app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                        user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                        id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                        token VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[6]' ERROR ON ERROR
                    )) AS m
                    STRAIGHT_JOIN `{prefix}sessions` AS s FORCE INDEX (PRIMARY)
                        ON s.app_name = m.app_name AND s.user_id = m.user_id AND s.id = m.id;
                    SET is_answered = TRUE;
                END;
                INSERT INTO `{prefix}sessions` (app_name, user_id, id, seq, create_time, update_time, token, expire_time)
                SELECT m.app_name, m.user_id, m.id, m.seq, m.create_time, m.update_time, m.token, m.expire_time
                FROM JSON_TABLE(made, '$[*]' COLUMNS (
                    app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                    user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                    id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                    seq BIGINT PATH '$[3]' ERROR ON ERROR,
                    create_time BIGINT PATH '$[4]' ERROR ON ERROR,
                    update_time BIGINT PATH '$[5]' ERROR ON ERROR,
                    token VARCHAR(64) CHARACTER SET utf8mb4 PATH '$[6]' ERROR ON ERROR,
                    expire_time BIGINT PATH '$[7]' ERROR ON ERROR
                )) AS m;
            END;
            IF is_answered THEN
                ROLLBACK;
                LEAVE work;
            END IF;
        END IF;

        IF sessions IS NOT NULL THEN
            SELECT COUNT(*), GROUP_CONCAT(j.place, ' ', s.seq + j.events), MAX(s.seq + j.events) INTO found, numbers, newest
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
            IF newest > most_events THEN
                SELECT 'full' AS what, 0 AS place, 0 AS number, NULL AS text, NULL AS hash, NULL AS of_users,
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

        -- Nothing beside the session's own row is written before the user's is locked: by that lock who erases the user
        -- keeps new sessions away.
        IF made IS NOT NULL THEN
            SELECT m.user_back, m.app_back INTO after_made_user, after_made_app
            FROM JSON_TABLE(made, '$[*]' COLUMNS (
                user_back BIGINT PATH '$[8]' ERROR ON ERROR,
                app_back BIGINT PATH '$[9]' ERROR ON ERROR
            )) AS m;
            -- The row is there: it gets where the logs were, and how much is stored.
            INSERT INTO `{prefix}sessions` (app_name, user_id, id, seq, create_time, update_time, token, bytes)
            SELECT m.app_name, m.user_id, m.id, 0, 0, 0, '', m.bytes
            FROM JSON_TABLE(made, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                bytes BIGINT PATH '$[10]' ERROR ON ERROR
            )) AS m
            LEFT JOIN `{prefix}users` AS u FORCE INDEX (PRIMARY)
                ON u.app_name = m.app_name AND u.user_id = m.user_id
            LEFT JOIN `{prefix}apps` AS a FORCE INDEX (PRIMARY)
                ON a.app_name = m.app_name
            ON DUPLICATE KEY UPDATE user_position = COALESCE(u.position, 0) - after_made_user,
                app_position = COALESCE(a.position, 0) - after_made_app, bytes = m.bytes;
            INSERT INTO `{prefix}initial_states` (app_name, user_id, session_id, state, seq, user_position, app_position)
            SELECT m.app_name, m.user_id, m.id, m.state, 0, s.user_position, s.app_position
            FROM JSON_TABLE(made, '$[*]' COLUMNS (
                app_name VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[0]' ERROR ON ERROR,
                user_id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[1]' ERROR ON ERROR,
                id VARCHAR(512) CHARACTER SET utf8mb4 PATH '$[2]' ERROR ON ERROR,
                state LONGTEXT CHARACTER SET utf8mb4 PATH '$[11]' ERROR ON ERROR
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
                SELECT COUNT(*) > 0 INTO is_full FROM (
                    SELECT 1
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
                SELECT is_full OR COUNT(*) > 0 INTO is_full FROM (
                    SELECT 1
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
                SELECT is_full OR COUNT(*) > 0 INTO is_full FROM (
                    SELECT 1
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

        IF is_full THEN
            SELECT 'full' AS what, 0 AS place, 0 AS number, NULL AS text, NULL AS hash, NULL AS of_users,
                NULL AS of_apps;
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

-- A page of a user's feed costs what it returns, whatever other users have committed.
--
-- No server takes back an index that was made, and not every one knows IF NOT EXISTS for it.
SET @make_index = IF(
    EXISTS (
        SELECT 1 FROM information_schema.STATISTICS
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{prefix}events' AND INDEX_NAME = 'events_by_user_feed'
    ),
    'DO 0',
    'CREATE INDEX events_by_user_feed ON `{prefix}events` (app_name, user_id, feed_position)'
);

PREPARE make_index FROM @make_index;

EXECUTE make_index;

DEALLOCATE PREPARE make_index;

SET @make_index = IF(
    EXISTS (
        SELECT 1 FROM information_schema.STATISTICS
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{prefix}initial_states' AND INDEX_NAME = 'initial_states_by_user_feed'
    ),
    'DO 0',
    'CREATE INDEX initial_states_by_user_feed ON `{prefix}initial_states` (app_name, user_id, feed_position)'
);

PREPARE make_index FROM @make_index;

EXECUTE make_index;

DEALLOCATE PREPARE make_index;

SET @make_index = IF(
    EXISTS (
        SELECT 1 FROM information_schema.STATISTICS
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{prefix}state_commits' AND INDEX_NAME = 'state_commits_by_user_feed'
    ),
    'DO 0',
    'CREATE INDEX state_commits_by_user_feed ON `{prefix}state_commits` (app_name, user_id, feed_position)'
);

PREPARE make_index FROM @make_index;

EXECUTE make_index;

DEALLOCATE PREPARE make_index;
