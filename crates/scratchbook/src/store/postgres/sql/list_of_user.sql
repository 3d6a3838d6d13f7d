WITH found AS MATERIALIZED (
    SELECT update_time, user_id, id, seq, expire_time FROM {schema}.sessions
    WHERE app_name = $1 AND user_id = $3 AND (expire_time IS NULL OR expire_time > $6) AND (update_time, id) > ($2, $4)
    ORDER BY update_time, id
    LIMIT $5 + 1
),
page AS MATERIALIZED (SELECT * FROM found ORDER BY update_time, id LIMIT $5),
{page}
