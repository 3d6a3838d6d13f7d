-- Appends events to their sessions in one commit and one round trip. The events are sorted by session, and within a
-- session by their order; the owners of shared keys are sorted as well. So all locks are taken in one order.
--
-- Rows of tables are looked up one by one (LATERAL with LIMIT, ON CONFLICT), so that no estimate of the planner can
-- turn the lookup into a scan of the table. `id >= x AND id <= x ORDER BY id` means `id = x`, in a form that only
-- matches the index that ends in the id: in a young table all indexes look alike to the planner, and the others read
-- all of a user's sessions, or all of a session's events.
--
-- The statement's snapshot is older than the locks that it has waited for, so values that have to be current are those
-- that a lock returns (seq) or that an upsert finds (version). An id that was stored in the meantime violates the
-- unique index; the statement is then rolled back and retried.
WITH batch AS MATERIALIZED (
    SELECT
        t.*,
        session.seq AS last,
        known.seq AS known_seq,
        known.hash AS known_hash,
        known.event AS known_event,
        known.position AS known_position,
        session.seq
            + pg_catalog.count(*) FILTER (WHERE known.seq IS NULL) OVER (PARTITION BY t.place ORDER BY t.ord) AS seq
    FROM
        unnest(
            $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[], $11::bytea[], $12::text[], $13::text[],
            $14::float8[], $15::bigint[], $16::text[]
        ) WITH ORDINALITY AS t (
            place, app_name, user_id, session_id, id, hash, invocation_id, author, timestamp, micros, event, ord
        )
        LEFT JOIN LATERAL (
            -- This also applies if the id is a duplicate: the lock makes this a commit of its own, which a synchronous
            -- standby must have before the event of an earlier attempt is acknowledged.
            SELECT s.seq FROM {schema}.sessions AS s
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
user_locks AS MATERIALIZED (
    SELECT locked.keys
    FROM
        unnest($17::text[], $18::text[]) AS o (app_name, user_id)
        CROSS JOIN LATERAL (
            SELECT u.keys FROM {schema}.users AS u WHERE u.app_name = o.app_name AND u.user_id = o.user_id
            FOR NO KEY UPDATE
        ) AS locked
    WHERE (SELECT pg_catalog.count(*) FROM batch) > 0
),
app_locks AS MATERIALIZED (
    SELECT locked.keys
    FROM
        pg_catalog.unnest($19::text[]) AS o (app_name)
        CROSS JOIN LATERAL (
            SELECT a.keys FROM {schema}.apps AS a WHERE a.app_name = o.app_name
            FOR NO KEY UPDATE
        ) AS locked
    WHERE (SELECT pg_catalog.count(1 / CASE WHEN keys > $21 THEN 0 ELSE 1 END) FROM user_locks) >= 0
),
-- Assigns positions after all locks, so that the positions of each owner increase from commit to commit.
feed AS MATERIALIZED (
    SELECT pg_catalog.nextval('{schema}.positions') AS position
    WHERE (SELECT pg_catalog.count(1 / CASE WHEN keys > $21 THEN 0 ELSE 1 END) FROM app_locks) >= 0
),
written AS MATERIALIZED (
    SELECT
        ord, place, app_name, user_id, user_id AS session_user_id, session_id, seq, id, hash, invocation_id, author,
        timestamp, micros, event, position + ord - 1 AS position
    FROM batch CROSS JOIN feed
    WHERE last IS NOT NULL AND known_seq IS NULL AND seq <= $22
),
stored AS (
    INSERT INTO {schema}.events (
        app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, event, position, xid
    )
    SELECT
        app_name, user_id, session_id, seq, id, hash, invocation_id, author, timestamp, event, position,
        pg_catalog.pg_current_xact_id()
    FROM written
),
{changes},
-- The rows exist and are locked: an upsert makes this an update by the primary key, whatever plan the planner prefers.
-- It also counts the new rows of session_states; a number over the limit divides by zero, as in the counts above.
moved AS (
    INSERT INTO {schema}.sessions AS s (
        app_name, user_id, id, seq, create_time, update_time, token, position, keys, bytes
    )
    SELECT
        app_name, user_id, session_id, pg_catalog.max(seq), 0,
        (pg_catalog.array_agg(micros ORDER BY ord DESC NULLS LAST))[1], '', 0, pg_catalog.sum(more),
        pg_catalog.sum(bytes)
    FROM (
        SELECT
            app_name, user_id, session_id, seq, micros, ord, 0 AS more, pg_catalog.octet_length(event) AS bytes
        FROM written
        UNION ALL
        SELECT app_name, user_id, session_id, NULL, NULL, NULL, more, 0 FROM session_keys
    ) AS n
    GROUP BY app_name, user_id, session_id
    ON CONFLICT (app_name, user_id, id) DO UPDATE SET
        seq = excluded.seq, update_time = excluded.update_time, bytes = s.bytes + excluded.bytes,
        keys = s.keys + excluded.keys / CASE WHEN s.keys + excluded.keys > $21 THEN 0 ELSE 1 END
)
SELECT
    ord, last IS NULL AS missing, seq, known_seq, known_hash, known_event,
    coalesce(known_position, feed.position + ord - 1) AS position, {heard} AS heard
FROM batch CROSS JOIN feed
