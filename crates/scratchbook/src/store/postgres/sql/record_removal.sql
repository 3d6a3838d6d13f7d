-- Something was removed: of the app $1 and the user $2 the session $3, '' for the user; how ($4), the number that goes with
-- it ($5), and when ($6). It takes the place of an earlier removal of the same session, and that of a user the place of all
-- of the user's sessions.
WITH replaced AS (
    -- A session has two rows at most. Only the index that ends in its id gives them in this order.
    DELETE FROM {schema}.removals
    WHERE
        ctid = ANY (ARRAY(
            SELECT r.ctid FROM {schema}.removals AS r
            WHERE r.app_name = $1 AND r.user_id = $2 AND r.session_id >= $3 AND r.session_id <= $3
            ORDER BY r.session_id
            LIMIT 2
        ))
        AND (kind = 'pruned' OR $4 <> 'pruned')
),
-- Apart from it, so that one session's removal does not read those of the user's other sessions.
of_user AS (
    DELETE FROM {schema}.removals WHERE app_name = $1 AND user_id = $2 AND session_id > '' AND $4 = 'erased'
)
INSERT INTO {schema}.removals (app_name, user_id, session_id, kind, count, time, position, xid)
VALUES (
    $1, $2, $3, $4, $5, $6, pg_catalog.nextval('{schema}.positions'), pg_catalog.pg_current_xact_id()
)
