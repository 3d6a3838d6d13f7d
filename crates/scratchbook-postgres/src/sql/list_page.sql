-- The sessions of a page with their state, each key once.
users AS MATERIALIZED (SELECT DISTINCT user_id FROM page)
SELECT
    'place' AS kind, user_id, id AS session_id, update_time, seq, title AS key, labels AS value, expire_time, create_time
FROM found
UNION ALL
SELECT 'size', user_id, id, bytes, 0, '', '', NULL, NULL FROM page
UNION ALL
SELECT 'session', p.user_id, p.id, 0, 0, k.key, k.value, NULL, NULL
FROM page AS p CROSS JOIN LATERAL (
    SELECT key, value FROM {schema}.session_states
    WHERE app_name = $1 AND user_id = p.user_id AND session_id = p.id AND value IS NOT NULL
    OFFSET 0
) AS k
UNION ALL
SELECT 'user', u.user_id, '', 0, 0, k.key, k.value, NULL, NULL
FROM users AS u CROSS JOIN LATERAL (
    SELECT key, value FROM {schema}.user_states WHERE app_name = $1 AND user_id = u.user_id AND value IS NOT NULL
    OFFSET 0
) AS k
UNION ALL
SELECT 'app', '', '', 0, 0, key, value, NULL, NULL FROM {schema}.app_states
WHERE app_name = $1 AND value IS NOT NULL AND EXISTS (SELECT FROM page)
UNION ALL
-- The positions up to which the logs of the users' and the app's state are visible.
SELECT 'user log', u.user_id, '', log.position, 0, '', '', NULL, NULL
FROM users AS u CROSS JOIN LATERAL (
    SELECT position FROM {schema}.state_log
    WHERE app_name = $1 AND scope = 'user' AND user_id = u.user_id ORDER BY position DESC LIMIT 1
) AS log
UNION ALL
SELECT 'app log', '', '', log.position, 0, '', '', NULL, NULL
FROM (
    SELECT position FROM {schema}.state_log
    WHERE app_name = $1 AND scope = 'app' AND user_id = '' ORDER BY position DESC LIMIT 1
) AS log
