-- Appends events to their sessions in one commit and one round trip. The events are sorted by session, and within a
-- session by their order; the owners of shared keys are sorted as well. So all locks are taken in one order.
--
-- Rows of tables are looked up one by one (LATERAL with LIMIT, ON CONFLICT), so that no estimate of the planner can
-- turn the lookup into a scan of the table. `id >= x AND id <= x ORDER BY id` means `id = x`, in a form that only
-- matches the index that ends in the id: in a young table all indexes look alike to the planner, and the others read
-- all of a user's sessions, or all of a session's events.
--
-- The statement's snapshot is older than the locks that it has waited for, so values that have to be current are those
-- that a lock returns (seq and the counters) or that an upsert finds (version). An id that was stored in the meantime
-- violates the unique index; the statement is then rolled back and retried.
--
-- An event with keys may take the state of a session, a user or an app beyond a limit, $21 for keys and $23 for bytes.
-- What it adds at most, with the events before it in the batch, comes with the event. If that does not fit, the event is
-- not stored, and its row says so: whether it really does not fit is found out by reading the keys under the locks.
WITH batch AS MATERIALIZED (
    SELECT
        t.*,
        session.seq AS last,
        session.latest AS latest_before,
        coalesce(
            t.own_keys > 0
            AND (session.keys + t.own_keys > $21 OR session.state_bytes + t.own_bytes > $23), false
        ) AS is_session_full,
        known.seq AS known_seq,
        known.hash AS known_hash,
        known.event AS known_event,
        known.position AS known_position
    FROM
        unnest(
            $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[], $11::bytea[], $12::text[], $13::text[],
            $14::float8[], $15::bigint[], $16::text[], $24::bigint[], $25::bigint[], $26::int[], $27::bigint[],
            $28::bigint[], $29::int[], $30::bigint[], $31::bigint[]
        ) WITH ORDINALITY AS t (
            place, app_name, user_id, session_id, id, hash, invocation_id, author, timestamp, micros, event, own_keys,
            own_bytes, user_place, user_keys, user_bytes, app_place, app_keys, app_bytes, ord
        )
        LEFT JOIN LATERAL (
            -- This also applies if the id is a duplicate: the lock makes this a commit of its own, which a synchronous
            -- standby must have before the event of an earlier attempt is acknowledged.
            SELECT s.seq, s.latest, s.keys, s.state_bytes FROM {schema}.sessions AS s
            WHERE
                s.app_name = t.app_name AND s.user_id = t.user_id
                AND s.id >= t.session_id AND s.id <= t.session_id AND (s.expire_time IS NULL OR s.expire_time > $20)
            ORDER BY s.id
            LIMIT 1
            FOR NO KEY UPDATE
        ) AS session ON true
        LEFT JOIN LATERAL (
            SELECT e.seq, e.hash, e.event, e.position FROM {schema}.events AS e
            WHERE
                e.app_name = t.app_name AND e.user_id = t.user_id AND e.session_id = t.session_id
                AND e.id >= t.id AND e.id <= t.id
            ORDER BY e.id
            LIMIT 1
        ) AS known ON true
),
-- The counters of the users and apps whose keys are written, by their places in $17 and $19.
user_room AS MATERIALIZED (
    SELECT
        pg_catalog.array_agg(coalesce(locked.keys, 0) ORDER BY o.ord) AS keys,
        pg_catalog.array_agg(coalesce(locked.bytes, 0) ORDER BY o.ord) AS bytes
    FROM
        unnest($17::text[], $18::text[]) WITH ORDINALITY AS o (app_name, user_id, ord)
        LEFT JOIN LATERAL (
            SELECT u.keys, u.bytes FROM {schema}.users AS u WHERE u.app_name = o.app_name AND u.user_id = o.user_id
            FOR NO KEY UPDATE
        ) AS locked ON true
    WHERE (SELECT pg_catalog.count(*) FROM batch) > 0
),
app_room AS MATERIALIZED (
    SELECT
        pg_catalog.array_agg(coalesce(locked.keys, 0) ORDER BY o.ord) AS keys,
        pg_catalog.array_agg(coalesce(locked.bytes, 0) ORDER BY o.ord) AS bytes
    FROM
        pg_catalog.unnest($19::text[]) WITH ORDINALITY AS o (app_name, ord)
        LEFT JOIN LATERAL (
            SELECT a.keys, a.bytes FROM {schema}.apps AS a WHERE a.app_name = o.app_name FOR NO KEY UPDATE
        ) AS locked ON true
    WHERE (SELECT pg_catalog.count(*) FROM user_room) > 0
),
-- Assigns positions after all locks, so that the positions of each owner increase from commit to commit.
feed AS MATERIALIZED (
    SELECT pg_catalog.nextval('{schema}.positions') AS position WHERE (SELECT pg_catalog.count(*) FROM app_room) > 0
),
numbered AS MATERIALIZED (
    SELECT
        n.*,
        last + pg_catalog.count(*) FILTER (WHERE known_seq IS NULL AND NOT is_full)
            OVER (PARTITION BY place ORDER BY ord) AS seq,
        greatest(
            latest_before,
            pg_catalog.max(timestamp) FILTER (WHERE known_seq IS NULL AND NOT is_full)
                OVER (PARTITION BY place ORDER BY ord)
        ) AS latest
    FROM (
        SELECT
            b.*, feed.position + b.ord - 1 AS position,
            b.is_session_full
            OR coalesce(
                b.user_keys > 0
                AND (u.keys[b.user_place] + b.user_keys > $21 OR u.bytes[b.user_place] + b.user_bytes > $23), false
            )
            OR coalesce(
                b.app_keys > 0
                AND (a.keys[b.app_place] + b.app_keys > $21 OR a.bytes[b.app_place] + b.app_bytes > $23), false
            ) AS is_full
        FROM batch AS b CROSS JOIN feed CROSS JOIN user_room AS u CROSS JOIN app_room AS a
    ) AS n
),
written AS MATERIALIZED (
    SELECT
        ord, place, app_name, user_id, user_id AS session_user_id, session_id, seq, id, hash, invocation_id, author,
        timestamp, latest, micros, event, position
    FROM numbered
    WHERE last IS NOT NULL AND known_seq IS NULL AND NOT is_full AND seq <= $22
),
stored AS (
    INSERT INTO {schema}.events (
        app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, latest, event, position, xid
    )
    SELECT
        app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, latest, event, position,
        pg_catalog.pg_current_xact_id()
    FROM written
),
{changes},
-- The rows exist and are locked: an upsert makes this an update by the primary key, whatever plan the planner prefers.
moved AS (
    INSERT INTO {schema}.sessions AS s (
        app_name, user_id, id, seq, create_time, update_time, latest, token, position, keys, state_bytes, bytes
    )
    SELECT
        app_name, user_id, session_id, pg_catalog.max(seq), 0,
        (pg_catalog.array_agg(micros ORDER BY ord DESC NULLS LAST))[1], pg_catalog.max(latest), '', 0,
        pg_catalog.sum(more_keys), pg_catalog.sum(more_bytes), pg_catalog.sum(bytes)
    FROM (
        SELECT
            app_name, user_id, session_id, seq, micros, latest, ord, 0 AS more_keys, 0 AS more_bytes,
            pg_catalog.octet_length(event) AS bytes
        FROM written
        UNION ALL
        SELECT app_name, user_id, session_id, NULL, NULL, NULL, NULL, more_keys, more_bytes, 0 FROM session_keys
    ) AS n
    GROUP BY app_name, user_id, session_id
    ON CONFLICT (app_name, user_id, id) DO UPDATE SET
        seq = excluded.seq, update_time = excluded.update_time, latest = excluded.latest, keys = s.keys + excluded.keys,
        state_bytes = s.state_bytes + excluded.state_bytes, bytes = s.bytes + excluded.bytes
)
SELECT
    ord, last IS NULL AS missing, seq, known_seq, known_hash, known_event,
    coalesce(known_position, position) AS position, {heard} AS heard, known_seq IS NULL AND is_full AS is_full
FROM numbered
