INSERT INTO {schema}.sessions (app_name, user_id, id, seq, create_time, update_time, token, position, xid)
VALUES ($1, $2, $3, $4, $5, $6, $7, 0, pg_catalog.pg_current_xact_id())
ON CONFLICT DO NOTHING
RETURNING 1
