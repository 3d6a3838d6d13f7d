INSERT INTO {schema}.sessions (app_name, user_id, id, seq, create_time, update_time, token, position, expire_time, title, labels)
VALUES ($1, $2, $3, $4, $5, $6, $7, $9, $8, $10, $11)
ON CONFLICT DO NOTHING
RETURNING 1
