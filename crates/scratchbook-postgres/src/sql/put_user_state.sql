-- Changes keys of an owner, whose row the statement before this one has locked. What this adds at most, $11 keys and $12
-- bytes, may be beyond a limit, $10 for keys and $13 for bytes. Then nothing is written.
WITH feed AS MATERIALIZED (
    SELECT
        pg_catalog.nextval('{schema}.positions') AS position,
        $11 > 0 AND (o.keys + $11 > $10 OR o.bytes + $12 > $13) AS is_full
    FROM {schema}.users AS o WHERE o.app_name = $6 AND o.user_id = $7
),
written AS MATERIALIZED (
    SELECT
        0::bigint AS ord, $6 AS app_name, $7 AS user_id, NULL AS session_user_id, NULL AS session_id,
        NULL::bigint AS seq, '' AS id, $8 AS author, $9 AS timestamp, position
    FROM feed WHERE NOT is_full
),
{changes}
SELECT position, is_full, {heard} AS heard FROM feed
