WITH owner AS (
    -- Inserts or locks the row, and rewrites nothing. All keys of a new owner are new; the division is explained at the
    -- counts below.
    INSERT INTO {schema}.apps AS o (app_name, keys)
    VALUES (
        $6,
        pg_catalog.cardinality($4::text[]) / CASE WHEN pg_catalog.cardinality($4::text[]) > $10 THEN 0 ELSE 1 END
    )
    ON CONFLICT (app_name) DO UPDATE SET app_name = excluded.app_name WHERE 1 / CASE WHEN o.keys > $10 THEN 0 ELSE 1 END = 0
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
