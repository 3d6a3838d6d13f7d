-- Creates a session with its initial state and events, unless its id is taken. The statements before this one have locked
-- the user, and the app if its keys are written: so no session with this id is created or removed meanwhile, its row is
-- inserted without a wait, and its position comes after that of a removal. The events are in their order.
--
-- $18 to $26 are the values of the session's row. What the creation adds at most to the state of the user ($27 and $28)
-- and of the app ($29 and $30) may be beyond a limit, $31 for keys and $32 for bytes. Then nothing is written.
WITH room AS MATERIALIZED (
    SELECT coalesce(
        (
            SELECT $27 > 0 AND (u.keys + $27 > $31 OR u.bytes + $28 > $32) FROM {schema}.users AS u
            WHERE u.app_name = $6 AND u.user_id = $7
        ), false
    ) OR coalesce(
        (
            SELECT $29 > 0 AND (a.keys + $29 > $31 OR a.bytes + $30 > $32) FROM {schema}.apps AS a
            WHERE a.app_name = $6
        ), false
    ) AS is_full
),
-- Assigns one position to the creation and one to each event. Together they take $17 values of the sequence.
feed AS MATERIALIZED (
    SELECT pg_catalog.array_agg(block.first) AS firsts
    FROM (SELECT pg_catalog.nextval('{schema}.positions') AS first FROM pg_catalog.generate_series(1, $17)) AS block
),
session AS (
    INSERT INTO {schema}.sessions (
        app_name, user_id, id, seq, create_time, update_time, latest, keys, state_bytes, expire_time, title, labels,
        token, position, bytes
    )
    SELECT
        $6, $7, $8, pg_catalog.cardinality($10::text[]), $18, $19,
        coalesce((SELECT pg_catalog.max(t.timestamp) FROM pg_catalog.unnest($14::float8[]) AS t (timestamp)), 0),
        $20, $21, $22, $23, $24, $25, firsts[1], $26
    FROM feed CROSS JOIN room WHERE NOT room.is_full
    ON CONFLICT DO NOTHING
    RETURNING 1
),
written AS MATERIALIZED (
    SELECT
        t.ord, $6 AS app_name, $7 AS user_id, $7 AS session_user_id, $8 AS session_id, t.ord AS seq, t.id, t.hash,
        t.invocation_id, t.author, t.timestamp,
        pg_catalog.max(t.timestamp) FILTER (WHERE t.ord > 0) OVER (ORDER BY t.ord) AS latest, t.event, feed.firsts[1 + t.ord / 1024] + t.ord % 1024 AS position
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
    SELECT $6, $7, $8, $16, firsts[1], pg_catalog.pg_current_xact_id() FROM session CROSS JOIN feed WHERE $16 IS NOT NULL
),
stored AS (
    INSERT INTO {schema}.events (
        app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, latest, event, position, xid
    )
    SELECT
        app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, latest, event, position,
        pg_catalog.pg_current_xact_id()
    FROM written WHERE ord > 0
),
{changes}
SELECT EXISTS (SELECT FROM session) AS is_made, room.is_full, {heard} AS heard FROM room
