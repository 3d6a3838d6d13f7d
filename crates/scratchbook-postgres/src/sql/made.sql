-- The sessions that the transaction before this statement has created, in their current state. Those are left out that
-- have events by now, and those whose user or app has a large state. So no session is large, because one without events
-- has only its initial state. If there are many keys, their values are not measured. The length of a value is known
-- without reading the value.
WITH found AS MATERIALIZED (
    SELECT s.* FROM unnest($2::text[], $3::text[], $6::text[]) AS k (user_id, id, token) CROSS JOIN LATERAL (
        SELECT update_time, user_id, id, seq, expire_time, title, labels, create_time, bytes, token FROM {schema}.sessions
        WHERE app_name = $1 AND user_id = k.user_id AND id >= k.id AND id <= k.id
        ORDER BY id LIMIT 1
    ) AS s
    WHERE
        s.token = k.token AND s.seq = 0
        AND CASE
            WHEN (SELECT a.keys FROM {schema}.apps AS a WHERE a.app_name = $1) > $4 THEN false
            WHEN (SELECT u.keys FROM {schema}.users AS u WHERE u.app_name = $1 AND u.user_id = k.user_id) > $4 THEN false
            ELSE
                (
                    SELECT coalesce(pg_catalog.sum(pg_catalog.octet_length(value)), 0) FROM {schema}.app_states
                    WHERE app_name = $1
                ) <= $5
                AND (
                    SELECT coalesce(pg_catalog.sum(pg_catalog.octet_length(value)), 0) FROM {schema}.user_states
                    WHERE app_name = $1 AND user_id = k.user_id
                ) <= $5
        END
),
page AS MATERIALIZED (SELECT * FROM found),
{page}
