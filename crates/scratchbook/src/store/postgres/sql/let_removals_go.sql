-- Lets the removals of sessions and users go that are older than $1, $2 of them at most, keeps which transaction of each
-- app was the last of them, and says how many went.
WITH gone AS (
    DELETE FROM {schema}.removals
    WHERE (app_name, position) IN (
        SELECT app_name, position FROM {schema}.removals
        WHERE kind <> 'pruned' AND time < $1 ORDER BY time LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    RETURNING app_name, xid
),
ends AS (
    INSERT INTO {schema}.removal_ends AS e (app_name, xid)
    SELECT DISTINCT ON (app_name) app_name, xid FROM gone ORDER BY app_name, xid DESC
    ON CONFLICT (app_name) DO UPDATE SET xid = greatest(e.xid, excluded.xid)
)
SELECT pg_catalog.count(*) FROM gone
