-- The sessions that were selected from a list, in their current state.
WITH found AS MATERIALIZED (
    SELECT s.* FROM unnest($2::text[], $3::text[]) AS k (user_id, id) CROSS JOIN LATERAL (
        SELECT update_time, user_id, id, seq, expire_time, title, labels, create_time, bytes FROM {schema}.sessions
        WHERE
            app_name = $1 AND user_id = k.user_id AND id >= k.id AND id <= k.id
            AND (expire_time IS NULL OR expire_time > $4)
        ORDER BY id LIMIT 1
    ) AS s
),
page AS MATERIALIZED (SELECT * FROM found),
{page}
