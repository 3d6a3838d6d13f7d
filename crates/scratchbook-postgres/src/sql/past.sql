-- The data from which the state of a session at one of its events ($4) is folded, in one snapshot: the last checkpoint
-- up to it or the state from which the fold begins, the later events and, if $6 is true, the user's and the app's keys
-- at that time. The rows have different kinds, and the client assembles them. $5 is the current time, and $7 the
-- largest number, which means no limit.
WITH place AS MATERIALIZED (
    SELECT s.seq, s.token, s.position, coalesce(i.seq, 0) AS base, i.state
    FROM {schema}.sessions AS s LEFT JOIN LATERAL (
        SELECT f.seq, f.state FROM {schema}.initial_states AS f
        WHERE f.app_name = $1 AND f.user_id = $2 AND f.session_id = $3 LIMIT 1
    ) AS i ON true
    WHERE
        s.app_name = $1 AND s.user_id = $2 AND s.id >= $3 AND s.id <= $3
        AND (s.expire_time IS NULL OR s.expire_time > $5)
    ORDER BY s.id LIMIT 1
),
-- Returns no rows if that event does not exist: the client reports why.
here AS MATERIALIZED (SELECT * FROM place WHERE seq >= $4 AND base <= $4),
kept AS MATERIALIZED (
    SELECT c.seq, c.state FROM here CROSS JOIN LATERAL (
        SELECT k.seq, k.state FROM {schema}.checkpoints AS k
        WHERE
            k.app_name = $1 AND k.user_id = $2 AND k.session_id = $3 AND k.seq <= $4 AND k.seq > here.base
        ORDER BY k.seq DESC LIMIT 1
    ) AS c
),
point AS MATERIALIZED (
    SELECT position FROM here WHERE base = $4
    UNION ALL
    SELECT e.position FROM here CROSS JOIN LATERAL (
        SELECT t.position FROM {schema}.events AS t
        WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = $3 AND t.seq >= $4 AND t.seq <= $4
        ORDER BY t.seq LIMIT 1
    ) AS e
    WHERE here.base < $4
),
-- Whether an owner's log was pruned so far that keys at that time are unknown. This does not matter if the log has no
-- later changes.
pruned AS MATERIALIZED (
    SELECT 1 FROM point CROSS JOIN LATERAL (
        SELECT 1 FROM {schema}.users AS u
        WHERE
            $6 AND u.app_name = $1 AND u.user_id = $2 AND u.pruned_position > point.position + 1
            AND point.position < (
                SELECT l.position FROM {schema}.state_log AS l
                WHERE l.app_name = $1 AND l.scope = 'user' AND l.user_id = $2 ORDER BY l.position DESC LIMIT 1
            )
        UNION ALL
        SELECT 1 FROM {schema}.apps AS a
        WHERE
            $6 AND a.app_name = $1 AND a.pruned_position > point.position + 1
            AND point.position < (
                SELECT l.position FROM {schema}.state_log AS l
                WHERE l.app_name = $1 AND l.scope = 'app' AND l.user_id = '' ORDER BY l.position DESC LIMIT 1
            )
    ) AS any_log
)
SELECT 'place' AS kind, seq, base, token AS key, state AS text FROM place
UNION ALL
SELECT 'pruned', NULL, NULL, NULL, NULL FROM pruned
UNION ALL
SELECT 'checkpoint', seq, NULL, NULL, state FROM kept
UNION ALL
SELECT 'event', e.seq, NULL, NULL, e.event FROM here CROSS JOIN LATERAL (
    SELECT t.seq, t.event FROM {schema}.events AS t
    WHERE
        t.app_name = $1 AND t.user_id = $2 AND t.session_id = $3
        AND t.seq > coalesce((SELECT seq FROM kept), here.base) AND t.seq <= $4
    ORDER BY t.seq LIMIT $7
) AS e
UNION ALL
SELECT 'user', NULL, NULL, k.key, CASE WHEN k.position <= point.position THEN k.value ELSE old.value END
FROM point CROSS JOIN LATERAL (
    SELECT u.key, u.value, u.position FROM {schema}.user_states AS u
    WHERE $6 AND u.app_name = $1 AND u.user_id = $2 OFFSET 0
) AS k LEFT JOIN LATERAL (
    SELECT l.value FROM {schema}.state_log AS l
    WHERE
        k.position > point.position AND l.app_name = $1 AND l.scope = 'user' AND l.user_id = $2
        AND l.key >= k.key AND l.key <= k.key AND l.position <= point.position
    ORDER BY l.key DESC, l.position DESC LIMIT 1
) AS old ON true
UNION ALL
SELECT 'app', NULL, NULL, k.key, CASE WHEN k.position <= point.position THEN k.value ELSE old.value END
FROM point CROSS JOIN LATERAL (
    SELECT a.key, a.value, a.position FROM {schema}.app_states AS a WHERE $6 AND a.app_name = $1 OFFSET 0
) AS k LEFT JOIN LATERAL (
    SELECT l.value FROM {schema}.state_log AS l
    WHERE
        k.position > point.position AND l.app_name = $1 AND l.scope = 'app' AND l.user_id = ''
        AND l.key >= k.key AND l.key <= k.key AND l.position <= point.position
    ORDER BY l.key DESC, l.position DESC LIMIT 1
) AS old ON true
