-- A session's last number and its pruned one, and the hashes of at most $5 events after $4: one row for each event, or
-- one row without an event if no event follows.
SELECT s.seq, coalesce(i.seq, 0), e.seq, e.id, e.hash, e.text_hash
FROM
    (
        SELECT o.seq FROM {schema}.sessions AS o
        WHERE
            o.app_name = $1 AND o.user_id = $2 AND o.id >= $3 AND o.id <= $3
            AND (o.expire_time IS NULL OR o.expire_time > $6)
        ORDER BY o.id LIMIT 1
    ) AS s
    LEFT JOIN LATERAL (
        SELECT f.seq FROM {schema}.initial_states AS f
        WHERE f.app_name = $1 AND f.user_id = $2 AND f.session_id = $3
    ) AS i ON true
    LEFT JOIN LATERAL (
        SELECT f.seq, f.id, f.hash, pg_catalog.sha256(pg_catalog.convert_to(f.event, 'UTF8')) AS text_hash
        FROM {schema}.events AS f
        WHERE f.app_name = $1 AND f.user_id = $2 AND f.session_id = $3 AND f.seq > $4
        ORDER BY f.seq LIMIT $5
    ) AS e ON true
ORDER BY e.seq
