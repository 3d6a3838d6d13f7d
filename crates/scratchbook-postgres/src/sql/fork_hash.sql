-- Copies the running hash of the source session, up to its last event with a running hash. The row exists: an upsert
-- makes this an update by the primary key, whatever plan the planner prefers.
INSERT INTO {schema}.sessions AS s (
    app_name, user_id, id, seq, create_time, update_time, token, position, hashed_seq, running_hash
)
SELECT
    $1, $2, $4, 0, 0, 0, '', 0, least(source.hashed_seq, $5), coalesce(e.running_hash, i.running_hash)
FROM
    (
        SELECT o.hashed_seq FROM {schema}.sessions AS o
        WHERE o.app_name = $1 AND o.user_id = $2 AND o.id >= $3 AND o.id <= $3 ORDER BY o.id LIMIT 1
    ) AS source
    LEFT JOIN LATERAL (
        SELECT f.running_hash FROM {schema}.events AS f
        WHERE
            f.app_name = $1 AND f.user_id = $2 AND f.session_id = $4
            AND f.seq >= least(source.hashed_seq, $5) AND f.seq <= least(source.hashed_seq, $5)
        ORDER BY f.seq LIMIT 1
    ) AS e ON true
    LEFT JOIN LATERAL (
        SELECT f.running_hash FROM {schema}.initial_states AS f
        WHERE f.app_name = $1 AND f.user_id = $2 AND f.session_id = $4
    ) AS i ON true
ON CONFLICT (app_name, user_id, id) DO UPDATE SET
    hashed_seq = excluded.hashed_seq, running_hash = excluded.running_hash
