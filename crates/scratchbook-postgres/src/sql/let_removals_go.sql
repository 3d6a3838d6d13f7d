-- Drops at most $2 records of removed sessions and users that are older than $1, stores the last dropped transaction of
-- each app, and returns how many were dropped.
WITH gone AS (
    -- The rows are locked and found by ctid, because a join might read the whole table.
    DELETE FROM {schema}.removals
    WHERE
        ctid = ANY (ARRAY(
            SELECT r.ctid FROM {schema}.removals AS r
            WHERE r.kind <> 'pruned' AND r.time < $1 ORDER BY r.time LIMIT $2 FOR UPDATE SKIP LOCKED
        ))
    RETURNING app_name, xid
),
ends AS (
    INSERT INTO {schema}.removal_ends AS e (app_name, xid)
    SELECT DISTINCT ON (app_name) app_name, xid FROM gone ORDER BY app_name, xid DESC
    ON CONFLICT (app_name) DO UPDATE SET xid = greatest(e.xid, excluded.xid)
)
SELECT pg_catalog.count(*) FROM gone
