-- Records a removal: the session $3 of the app $1 and the user $2, or the user if $3 is ''; its kind ($4), its count
-- ($5) and its time ($6). The record of a pruning replaces only an earlier pruning of the session, that of another
-- removal all records of the session, and that of a user all records of the user's sessions.
WITH replaced AS (
    -- A session has at most two rows. The comparison of the app's name is written so that no index that begins with it
    -- matches: in a small table the planner would read all removals of the user.
    DELETE FROM {schema}.removals
    WHERE
        session_id = $3 AND user_id = $2 AND app_name || '' = $1 AND $4 <> 'erased'
        AND (kind = 'pruned' OR $4 <> 'pruned')
),
of_user AS (
    -- The rows are found by ctid, in the order of the index by user, so that no other index of the app matches.
    DELETE FROM {schema}.removals
    WHERE
        ctid = ANY (ARRAY(
            SELECT r.ctid FROM {schema}.removals AS r
            WHERE $4 = 'erased' AND r.app_name = $1 AND r.user_id >= $2 AND r.user_id <= $2
            ORDER BY r.user_id, r.position
        ))
)
INSERT INTO {schema}.removals (app_name, user_id, session_id, kind, count, time, position, xid)
VALUES (
    $1, $2, $3, $4, $5, $6, pg_catalog.nextval('{schema}.positions'), pg_catalog.pg_current_xact_id()
)
