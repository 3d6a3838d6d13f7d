-- The state from which a fork's events continue, copied from the source session. $4 is the fork's id, and $5 the number
-- of the event at which the fork ends.
INSERT INTO {schema}.initial_states (app_name, user_id, session_id, state, seq, forked_at, position, xid)
SELECT
    $1, $2, $4, coalesce(i.state, '{}'), coalesce(i.seq, 0), $5, pg_catalog.nextval('{schema}.positions'),
    pg_catalog.pg_current_xact_id()
FROM (SELECT 1) AS one LEFT JOIN LATERAL (
    SELECT f.state, f.seq FROM {schema}.initial_states AS f
    WHERE f.app_name = $1 AND f.user_id = $2 AND f.session_id = $3
) AS i ON true
