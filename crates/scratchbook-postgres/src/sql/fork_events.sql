INSERT INTO {schema}.events (
    app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, latest, event, position, xid, copied
)
SELECT
    app_name, user_id, $4, seq, id, hash, invocation_id, author, timestamp, latest, event, position,
    pg_catalog.pg_current_xact_id(), true
FROM {schema}.events WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND seq <= $5
