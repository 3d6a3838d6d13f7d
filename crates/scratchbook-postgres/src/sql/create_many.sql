-- Creates sessions that have an initial state and no events, those whose ids are free, and returns the tokens of those
-- that were created. The sessions are sorted by address, so that all locks are taken in one order.
WITH new AS MATERIALIZED (
    SELECT * FROM unnest(
        $1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[],
        $9::bigint[], $10::bigint[], $11::text[], $15::bigint[]
    ) WITH ORDINALITY AS t (
        app_name, user_id, id, token, create_time, expire_time, title, labels, keys, bytes, state, state_bytes, ord
    )
),
user_rows AS (
    -- Inserts or locks the rows, and rewrites nothing, as in the creation of one session.
    INSERT INTO {schema}.users (app_name, user_id)
    SELECT app_name, user_id FROM new GROUP BY app_name, user_id ORDER BY pg_catalog.min(ord)
    ON CONFLICT (app_name, user_id) DO UPDATE SET user_id = excluded.user_id WHERE false
    RETURNING 1
),
app_rows AS (
    INSERT INTO {schema}.apps (app_name)
    SELECT app_name FROM new WHERE (SELECT pg_catalog.count(*) FROM user_rows) >= 0
    GROUP BY app_name ORDER BY pg_catalog.min(ord)
    ON CONFLICT (app_name) DO NOTHING
    RETURNING 1
),
-- Assigns positions after all locks, so that a creation comes after the removals that it has waited for.
feed AS MATERIALIZED (
    SELECT pg_catalog.nextval('{schema}.positions') AS position
    WHERE (SELECT pg_catalog.count(*) FROM app_rows) >= 0
),
created AS (
    INSERT INTO {schema}.sessions (
        app_name, user_id, id, seq, create_time, update_time, keys, state_bytes, expire_time, title, labels, token,
        position, bytes
    )
    SELECT
        app_name, user_id, id, 0, create_time, create_time, keys, state_bytes, expire_time, title, labels, token,
        position + ord - 1, bytes
    FROM new CROSS JOIN feed
    ON CONFLICT DO NOTHING
    RETURNING token, position
),
-- A session is known by its position. A FULL JOIN cannot be done by comparing every pair of rows, and coalesce hides
-- from the planner that another join would do.
made AS MATERIALIZED (
    SELECT n.app_name, n.user_id, n.id AS session_id, n.state, n.ord, n.position
    FROM
        (SELECT new.*, position + ord - 1 AS position FROM new CROSS JOIN feed) AS n
        FULL JOIN created AS c ON c.position = n.position
    WHERE coalesce(c.position, 0) > 0
),
initial AS (
    INSERT INTO {schema}.initial_states (app_name, user_id, session_id, state, position, xid)
    SELECT app_name, user_id, session_id, state, position, pg_catalog.pg_current_xact_id()
    FROM made WHERE state IS NOT NULL
),
keys AS (
    INSERT INTO {schema}.session_states (app_name, user_id, session_id, key, value, bytes, seq)
    SELECT
        app_name, user_id, session_id, key, value, pg_catalog.octet_length(key) + pg_catalog.octet_length(value), 0
    FROM unnest($12::bigint[], $13::text[], $14::text[]) AS k (ord, key, value) FULL JOIN made AS m ON m.ord = k.ord
    WHERE coalesce(k.ord, 0) > 0 AND coalesce(m.ord, 0) > 0
)
SELECT token, {heard} AS heard FROM created
