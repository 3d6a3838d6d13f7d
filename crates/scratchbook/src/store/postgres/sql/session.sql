-- A session, its state and its events, in one snapshot: rows of different kinds, put together by the client.
SELECT 'place' AS kind, seq, update_time AS micros, NULL AS key, NULL AS text FROM (
    SELECT seq, update_time FROM {schema}.sessions
    WHERE app_name = $1 AND user_id = $2 AND id >= $3 AND id <= $3 ORDER BY id LIMIT 1
) AS place
