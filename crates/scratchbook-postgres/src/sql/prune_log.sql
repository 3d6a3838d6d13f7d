-- Removes at most $5 rows from an owner's log that were overwritten before a position ($4). An owner's log is in one
-- partition, if the table is partitioned.
WITH gone AS MATERIALIZED (
    SELECT t.tableoid AS part, t.ctid AS place
    FROM {schema}.state_log AS t CROSS JOIN LATERAL (
        SELECT 1 FROM {schema}.state_log AS o
        WHERE
            o.app_name = $1 AND o.scope = $2 AND o.user_id = $3 AND o.key >= t.key AND o.key <= t.key
            AND o.position > t.position AND o.position < $4
        ORDER BY o.key, o.position LIMIT 1
    ) AS later
    WHERE t.app_name = $1 AND t.scope = $2 AND t.user_id = $3 AND t.position < $4
    ORDER BY t.position, t.key LIMIT $5
)
DELETE FROM {schema}.state_log
WHERE ctid = ANY (ARRAY(SELECT place FROM gone)) AND tableoid = (SELECT part FROM gone LIMIT 1)
RETURNING 1
