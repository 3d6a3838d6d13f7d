-- Writes the initial states of the sessions whose rows the statement before this one has inserted in the same
-- transaction. These rows have the token of their creation, and no position yet. The sessions are sorted by address.
WITH made AS MATERIALIZED (
    SELECT t.*
    FROM
        unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS t (
            app_name, user_id, session_id, token, state, ord
        )
        CROSS JOIN LATERAL (
            SELECT 1 FROM {schema}.sessions AS s
            WHERE
                s.app_name = t.app_name AND s.user_id = t.user_id AND s.id >= t.session_id AND s.id <= t.session_id
                AND s.token = t.token AND s.position = 0
            ORDER BY s.id
            LIMIT 1
        ) AS inserted
),
user_rows AS (
    -- Inserts or locks the row, and rewrites nothing. The lock makes a removal of the user wait for this creation.
    INSERT INTO {schema}.users (app_name, user_id)
    SELECT app_name, user_id FROM made GROUP BY app_name, user_id ORDER BY pg_catalog.min(ord)
    ON CONFLICT (app_name, user_id) DO UPDATE SET user_id = excluded.user_id WHERE false
    RETURNING 1
),
app_rows AS (
    INSERT INTO {schema}.apps (app_name)
    SELECT app_name FROM made WHERE (SELECT pg_catalog.count(*) FROM user_rows) >= 0
    GROUP BY app_name ORDER BY pg_catalog.min(ord)
    ON CONFLICT (app_name) DO NOTHING
    RETURNING 1
),
-- Assigns positions after all locks, so that a creation comes after the removals that it has waited for.
feed AS MATERIALIZED (
    SELECT pg_catalog.nextval('{schema}.positions') AS position
    WHERE (SELECT pg_catalog.count(*) FROM app_rows) >= 0
),
initial AS (
    INSERT INTO {schema}.initial_states (app_name, user_id, session_id, state, position, xid)
    SELECT app_name, user_id, session_id, state, position + ord - 1, pg_catalog.pg_current_xact_id()
    FROM made CROSS JOIN feed
    WHERE state IS NOT NULL
),
-- A FULL JOIN cannot be done by comparing every pair of rows, and coalesce hides from the planner that another join
-- would do.
keys AS (
    INSERT INTO {schema}.session_states (app_name, user_id, session_id, key, value, seq, first_seq)
    SELECT app_name, user_id, session_id, key, value, 0, 0
    FROM unnest($6::bigint[], $7::text[], $8::text[]) AS k (ord, key, value) FULL JOIN made AS m ON m.ord = k.ord
    WHERE coalesce(k.ord, 0) > 0 AND coalesce(m.ord, 0) > 0
),
-- The rows exist: an upsert makes this an update by the primary key, whatever plan the planner prefers.
placed AS (
    INSERT INTO {schema}.sessions (app_name, user_id, id, seq, create_time, update_time, token, position)
    SELECT app_name, user_id, session_id, 0, 0, 0, '', position + ord - 1 FROM made CROSS JOIN feed
    ON CONFLICT (app_name, user_id, id) DO UPDATE SET position = excluded.position
)
SELECT {heard} AS heard
