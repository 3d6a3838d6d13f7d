-- A part of one owner's log. It ends with a whole commit: all rows of the position at which the limit is reached.
SELECT position, key, version, value, session_user_id, session_id, seq, event_id, author, time
FROM {schema}.state_log
WHERE
    app_name = $1 AND scope = $2 AND user_id = $3 AND position > $4
    AND position <= coalesce(
        (
            SELECT position FROM {schema}.state_log
            WHERE app_name = $1 AND scope = $2 AND user_id = $3 AND position > $4
            ORDER BY position, key OFFSET $5 - 1 LIMIT 1
        ),
        9223372036854775807
    )
ORDER BY position, key
