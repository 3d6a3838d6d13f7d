-- The order is that of the index by time, so that no other index matches: it finds the few matching events among many.
UNION ALL
SELECT 'event', seq, NULL, NULL, event, NULL, NULL FROM (
    SELECT seq, event FROM {schema}.events
    WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND timestamp >= $6 ORDER BY timestamp OFFSET 0
) AS events
