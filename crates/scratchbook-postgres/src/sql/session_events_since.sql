-- The order is that of the index by time, so that no other will do: it finds the few among many that match.
UNION ALL
SELECT 'event', seq, NULL, NULL, event, NULL, NULL FROM (
    SELECT seq, event FROM {schema}.events
    WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND timestamp >= $6 ORDER BY timestamp OFFSET 0
) AS events
