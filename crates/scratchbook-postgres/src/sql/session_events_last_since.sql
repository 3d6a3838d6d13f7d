-- Goes back by number, until enough events are found. From the first event on after which all are earlier, each event counts
-- as one of them, so that this ends soon.
UNION ALL
SELECT 'event', seq, NULL, NULL, event, NULL, NULL FROM (
    SELECT seq, timestamp, event FROM {schema}.events
    WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND (timestamp >= $6 OR latest < $6)
    ORDER BY seq DESC LIMIT $5
) AS events
WHERE timestamp >= $6
