-- Inserts a session whose id no other user of the app has, while the lock on that id is held. $12 is the current time.
INSERT INTO {schema}.sessions (app_name, user_id, id, seq, create_time, update_time, token, position, expire_time, title, labels)
SELECT $1, $2, $3, $4, $5, $6, $7, $9, $8, $10, $11
WHERE NOT EXISTS (
    SELECT 1 FROM (
        SELECT 1 FROM {schema}.sessions AS s
        WHERE
            {has id} AND CASE
                WHEN s.app_name = $1 AND s.id = $3 AND s.user_id <> $2
                    AND (s.expire_time IS NULL OR s.expire_time > $12) THEN true
                ELSE false
            END
        LIMIT 1
    ) AS others
)
ON CONFLICT DO NOTHING
RETURNING 1
