-- Events from a time on, limited to the last ones in the store's order. If there are few ($7), the index by time finds
-- them. If there are many, the last ones are found soon by going back by number, at most $8 events, unless the clock
-- was very wrong. The orders of the inner queries are those of the index to be used.
UNION ALL
SELECT 'event', seq, NULL, NULL, event, NULL, NULL FROM (
    WITH many AS MATERIALIZED (
        SELECT pg_catalog.count(*) >= $7 AS yes FROM (
            SELECT 1 FROM {schema}.events
            WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND timestamp >= $6 ORDER BY timestamp LIMIT $7
        ) AS matches
    ),
    first AS MATERIALIZED (
        SELECT seq FROM (
            SELECT seq, timestamp FROM {schema}.events
            WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND (SELECT yes FROM many)
            ORDER BY seq DESC LIMIT $8
        ) AS back
        WHERE timestamp >= $6 ORDER BY seq DESC OFFSET $5 - 1 LIMIT 1
    ),
    by_time AS MATERIALIZED (
        SELECT seq FROM {schema}.events
        WHERE
            app_name = $1 AND user_id = $2 AND session_id = $3 AND timestamp >= $6
            AND (SELECT pg_catalog.count(*) FROM first) = 0
        ORDER BY timestamp
    ),
    last AS MATERIALIZED (SELECT seq FROM by_time ORDER BY seq DESC LIMIT $5)
    SELECT seq, event FROM (
        SELECT seq, event FROM {schema}.events
        WHERE
            app_name = $1 AND user_id = $2 AND session_id = $3 AND seq >= (SELECT seq FROM first)
            AND timestamp >= $6
        ORDER BY seq LIMIT $5
    ) AS near
    UNION ALL
    SELECT found.seq, found.event FROM last CROSS JOIN LATERAL (
        SELECT e.seq, e.event FROM {schema}.events AS e
        WHERE
            e.app_name = $1 AND e.user_id = $2 AND e.session_id = $3 AND e.seq >= last.seq AND e.seq <= last.seq
        ORDER BY e.seq LIMIT 1
    ) AS found
) AS events
