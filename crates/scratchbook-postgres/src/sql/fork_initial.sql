-- The state and running hash from which a fork's events continue, copied from the source session. $4 is the fork's id,
-- $5 the number of the event at which the fork ends, $6 the running hash before the source's first event.
INSERT INTO {schema}.initial_states (
    app_name, user_id, session_id, state, seq, forked_at, position, xid, hashed_seq, running_hash
)
SELECT
    $1, $2, $4, coalesce(i.state, '{}'), coalesce(i.seq, 0), $5, pg_catalog.nextval('{schema}.positions'),
    pg_catalog.pg_current_xact_id(), coalesce(i.seq, 0),
    CASE
        WHEN i.running_hash IS NOT NULL AND i.hashed_seq = i.seq THEN i.running_hash
        WHEN coalesce(i.seq, 0) = 0 THEN $6::bytea
    END
FROM (SELECT 1) AS one LEFT JOIN LATERAL (
    SELECT f.state, f.seq, f.hashed_seq, f.running_hash FROM {schema}.initial_states AS f
    WHERE f.app_name = $1 AND f.user_id = $2 AND f.session_id = $3
) AS i ON true
