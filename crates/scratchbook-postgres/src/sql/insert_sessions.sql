-- Inserts the rows of sessions whose ids are free, and returns the tokens of those that were inserted. The sessions are
-- sorted by address, so that all locks are taken in one order.
INSERT INTO {schema}.sessions (
    app_name, user_id, id, seq, create_time, update_time, token, position, expire_time, title, labels, keys, bytes
)
SELECT
    app_name, user_id, id, 0, create_time, create_time, token, 0, expire_time, title, labels, keys, bytes
FROM
    unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[],
        $9::bigint[], $10::bigint[]
    ) AS t (
        app_name, user_id, id, token, create_time, expire_time, title, labels, keys, bytes
    )
ON CONFLICT DO NOTHING
RETURNING token
