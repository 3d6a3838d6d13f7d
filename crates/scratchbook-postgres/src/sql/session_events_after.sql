UNION ALL
SELECT 'event', seq, NULL, NULL, event, NULL, NULL FROM (
    SELECT seq, event FROM {schema}.events
    WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND seq > $4 ORDER BY seq LIMIT $5
) AS events
