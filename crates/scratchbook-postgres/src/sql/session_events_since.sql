-- This is the order of the index by time, so that no other index matches. That index finds a few events among many.
UNION ALL
SELECT 'event', seq, NULL, NULL, event, NULL, NULL FROM (
    SELECT seq, event FROM {schema}.events
    WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND timestamp >= $6 ORDER BY timestamp OFFSET 0
) AS events
