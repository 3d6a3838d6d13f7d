-- A session, its state and its events, in one snapshot. The rows have different kinds, and the client assembles them.
SELECT 'place' AS kind, seq, update_time AS micros, title AS key, labels AS text, expire_time, create_time FROM (
    SELECT seq, update_time, title, labels, expire_time, create_time FROM {schema}.sessions
    WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3 AND (expire_time IS NULL OR expire_time > $10)
    ORDER BY id LIMIT 1
) AS place
UNION ALL
SELECT 'size', bytes, NULL, NULL, NULL, NULL, NULL FROM (
    SELECT bytes FROM {schema}.sessions
    WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3 ORDER BY id LIMIT 1
) AS size
UNION ALL
-- The positions up to which the logs of the user's and the app's state are visible.
SELECT
    'logs',
    (
        SELECT position FROM {schema}.state_log
        WHERE app_name = $1 AND scope = 'user' AND user_id = $2 ORDER BY position DESC LIMIT 1
    ),
    (
        SELECT position FROM {schema}.state_log
        WHERE app_name = $1 AND scope = 'app' AND user_id = '' ORDER BY position DESC LIMIT 1
    ),
    NULL, NULL, NULL, NULL
