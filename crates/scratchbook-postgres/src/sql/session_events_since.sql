-- Goes back by number to the first event after which all are earlier.
UNION ALL
SELECT 'event', seq, NULL, NULL, event, NULL, NULL FROM (
    SELECT seq, event FROM {schema}.events
    WHERE
        app_name = $1 AND user_id = $2 AND session_id = $3 AND timestamp >= $6
        AND seq > coalesce(
            (
                SELECT seq FROM {schema}.events
                WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND latest < $6 ORDER BY seq DESC LIMIT 1
            ), 0
        )
    ORDER BY seq OFFSET 0
) AS events
