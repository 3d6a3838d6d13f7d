WITH owner AS (
    -- Inserts or locks, and rewrites nothing.
    INSERT INTO {schema}.users (app_name, user_id) VALUES ($6, $7)
    ON CONFLICT (app_name, user_id) DO UPDATE SET user_id = excluded.user_id WHERE false
    RETURNING 1
),
feed AS MATERIALIZED (
    SELECT pg_catalog.nextval('{schema}.positions') AS position WHERE (SELECT pg_catalog.count(*) FROM owner) >= 0
),
written AS MATERIALIZED (
    SELECT
        0::bigint AS ord, $6 AS app_name, $7 AS user_id, NULL AS session_user_id, NULL AS session_id,
        NULL::bigint AS seq, '' AS id, $8 AS author, $9 AS timestamp, position
    FROM feed
),
{changes}
SELECT position, {heard} AS heard FROM written
