-- Something was removed: of the app $1 and the user $2 the session $3, '' for the user; how ($4), the number that goes with
-- it ($5), and when ($6). It takes the place of an earlier removal of the same session, and that of a user the place of all
-- of the user's sessions.
WITH replaced AS (
    -- A session has two rows at most. The app's name is compared so that no index that begins with it will do: in a small
    -- table the planner would read all removals of the user.
    DELETE FROM {schema}.removals
    WHERE
        session_id = $3 AND user_id = $2 AND app_name || '' = $1 AND $4 <> 'erased'
        AND (kind = 'pruned' OR $4 <> 'pruned')
),
of_user AS (
    DELETE FROM {schema}.removals WHERE app_name = $1 AND user_id = $2 AND $4 = 'erased'
)
INSERT INTO {schema}.removals (app_name, user_id, session_id, kind, count, time, position, xid)
VALUES (
    $1, $2, $3, $4, $5, $6, pg_catalog.nextval('{schema}.positions'), pg_catalog.pg_current_xact_id()
)
