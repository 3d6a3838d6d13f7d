-- Creates a session with its initial state and events, unless its id is taken. The events are in their order. $2 and $3
-- are the scopes and slots of the changes, $21 to $28 the values of the session's row.
WITH user_row AS (
    -- Inserts or locks the row, and rewrites nothing. With the user's row locked, no session with this id can be created
    -- or removed: so the row of the session is inserted without a wait, and its position comes after that of a removal.
    -- All keys of a new owner are new; the division is explained at the counts below.
    INSERT INTO {schema}.users AS u (app_name, user_id, keys)
    SELECT $6, $7, n.keys / CASE WHEN n.keys > $20 THEN 0 ELSE 1 END FROM (
        SELECT pg_catalog.count(DISTINCT slot) AS keys FROM unnest($2::text[], $3::bigint[]) AS t (scope, slot)
        WHERE scope = 'user'
    ) AS n
    ON CONFLICT (app_name, user_id) DO UPDATE SET user_id = excluded.user_id
        WHERE 1 / CASE WHEN u.keys > $20 AND excluded.keys > 0 THEN 0 ELSE 1 END = 0
    RETURNING 1
),
app_row AS (
    INSERT INTO {schema}.apps (app_name) SELECT $6 WHERE NOT $19 AND (SELECT pg_catalog.count(*) FROM user_row) >= 0
    ON CONFLICT (app_name) DO NOTHING
    RETURNING 1
),
-- Only a write to an app's keys locks the app. The planner skips the rest of a condition that is already false, so this
-- condition and that of `feed` name all parts that have to run before them.
app_lock AS (
    INSERT INTO {schema}.apps AS a (app_name, keys)
    SELECT $6, n.keys / CASE WHEN n.keys > $20 THEN 0 ELSE 1 END FROM (
        SELECT pg_catalog.count(DISTINCT slot) AS keys FROM unnest($2::text[], $3::bigint[]) AS t (scope, slot)
        WHERE scope = 'app'
    ) AS n
    WHERE $19 AND (SELECT pg_catalog.count(*) FROM user_row) >= 0
    ON CONFLICT (app_name) DO UPDATE SET app_name = excluded.app_name
        WHERE 1 / CASE WHEN a.keys > $20 THEN 0 ELSE 1 END = 0
    RETURNING 1
),
-- Assigns one position to the creation and one to each event. Together they take $18 values of the sequence.
feed AS MATERIALIZED (
    SELECT pg_catalog.array_agg(block.first) AS firsts
    FROM (SELECT pg_catalog.nextval('{schema}.positions') AS first FROM pg_catalog.generate_series(1, $18)) AS block
    WHERE
        (SELECT pg_catalog.count(*) FROM user_row) + (SELECT pg_catalog.count(*) FROM app_row)
        + (SELECT pg_catalog.count(*) FROM app_lock) >= 0
),
session AS (
    INSERT INTO {schema}.sessions (
        app_name, user_id, id, seq, create_time, update_time, keys, expire_time, title, labels, token, position, bytes
    )
    SELECT
        $6, $7, $8, pg_catalog.cardinality($10::text[]), $21, $22, $23, $24, $25, $26, $27, firsts[1], $28
    FROM feed
    ON CONFLICT DO NOTHING
    RETURNING 1
),
written AS MATERIALIZED (
    SELECT
        t.ord, $6 AS app_name, $7 AS user_id, $7 AS session_user_id, $8 AS session_id, t.ord AS seq, t.id, t.hash,
        t.invocation_id, t.author, t.timestamp, t.event, feed.firsts[1 + t.ord / 1024] + t.ord % 1024 AS position
    FROM
        session CROSS JOIN feed
        CROSS JOIN (
            SELECT * FROM unnest($10::text[], $11::bytea[], $12::text[], $13::text[], $14::float8[], $15::text[])
                WITH ORDINALITY AS e (id, hash, invocation_id, author, timestamp, event, ord)
            UNION ALL
            SELECT '', '', '', 'user', $9, '', 0
        ) AS t
),
initial AS (
    INSERT INTO {schema}.initial_states (app_name, user_id, session_id, state, position, xid)
    SELECT $6, $7, $8, $16, firsts[1], pg_catalog.pg_current_xact_id() FROM session CROSS JOIN feed WHERE $17
),
stored AS (
    INSERT INTO {schema}.events (
        app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, event, position, xid
    )
    SELECT
        app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, event, position,
        pg_catalog.pg_current_xact_id()
    FROM written WHERE ord > 0
),
{changes}
SELECT {heard} AS heard FROM session
