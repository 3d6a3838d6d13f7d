-- Removes from an owner's log what was overwritten before a position ($4) again, so many rows at most ($5).
WITH gone AS MATERIALIZED (
    SELECT t.position, t.key FROM {schema}.state_log AS t
    WHERE
        t.app_name = $1 AND t.scope = $2 AND t.user_id = $3 AND t.position < $4
        AND EXISTS (
            SELECT 1 FROM {schema}.state_log AS later
            WHERE
                later.app_name = $1 AND later.scope = $2 AND later.user_id = $3
                AND later.key = t.key AND later.position > t.position AND later.position < $4
        )
    ORDER BY t.position, t.key LIMIT $5
)
DELETE FROM {schema}.state_log AS l USING gone
WHERE
    l.app_name = $1 AND l.scope = $2 AND l.user_id = $3 AND l.position = gone.position AND l.key = gone.key
RETURNING 1
