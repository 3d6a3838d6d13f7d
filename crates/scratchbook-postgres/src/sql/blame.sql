-- The last writer of each key of a session's merged state: an event, or a row of the log. $4 is the current time.
WITH place AS MATERIALIZED (
    SELECT 1 FROM {schema}.sessions
    WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3 AND (expire_time IS NULL OR expire_time > $4)
    ORDER BY id LIMIT 1
)
SELECT
    'place' AS scope, NULL AS key, NULL AS session_user_id, NULL AS session_id, NULL::bigint AS seq, NULL AS event_id,
    NULL AS author, NULL AS invocation_id, NULL::float8 AS time
FROM place
UNION ALL
SELECT 'session', k.key, $2, $3, k.seq, e.id, e.author, e.invocation_id, e.timestamp
FROM (
    SELECT key, seq FROM {schema}.session_states
    WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND value IS NOT NULL OFFSET 0
) AS k LEFT JOIN LATERAL (
    SELECT t.id, t.author, t.invocation_id, t.timestamp FROM {schema}.events AS t
    WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = $3 AND t.seq >= k.seq AND t.seq <= k.seq
    ORDER BY t.seq LIMIT 1
) AS e ON true
UNION ALL
SELECT k.scope, k.key, l.session_user_id, l.session_id, l.seq, l.event_id, l.author, e.invocation_id, l.time
FROM (
    SELECT 'user' AS scope, $2 AS user_id, key, position FROM {schema}.user_states
    WHERE app_name = $1 AND user_id = $2 AND value IS NOT NULL
    UNION ALL
    SELECT 'app', '', key, position FROM {schema}.app_states WHERE app_name = $1 AND value IS NOT NULL
    OFFSET 0
) AS k CROSS JOIN LATERAL (
    SELECT * FROM {schema}.state_log AS t
    WHERE
        t.app_name = $1 AND t.scope = k.scope AND t.user_id = k.user_id AND t.position = k.position AND t.key = k.key
    LIMIT 1
) AS l LEFT JOIN LATERAL (
    SELECT t.id, t.invocation_id FROM {schema}.events AS t
    WHERE
        t.app_name = $1 AND t.user_id = l.session_user_id AND t.session_id = l.session_id
        AND t.seq >= l.seq AND t.seq <= l.seq
    ORDER BY t.seq LIMIT 1
) AS e ON e.id = l.event_id
