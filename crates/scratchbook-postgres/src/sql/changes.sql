-- Changes to keys ($1 to $5), each with the row of `written` that it belongs to. Changes with the same `slot` change
-- one key: the last of them is its value, and each change to a key of the user or the app is a row of the log with its
-- own version.
--
-- A FULL JOIN cannot be done by comparing every pair of rows, which the planner considers cheap if it expects few rows.
-- coalesce hides from the planner that rows without a partner are not wanted.
changed AS MATERIALIZED (
    SELECT
        t.scope, t.key, t.value,
        CASE WHEN t.value IS NULL THEN 0 ELSE pg_catalog.octet_length(t.key) + pg_catalog.octet_length(t.value) END AS bytes,
        CASE t.scope WHEN 'user' THEN w.user_id ELSE '' END AS owner,
        w.app_name, w.user_id, w.session_user_id, w.session_id, w.seq, w.id, w.author, w.timestamp, w.position,
        pg_catalog.row_number() OVER (PARTITION BY t.slot ORDER BY t.ord) AS nth,
        pg_catalog.count(*) OVER (PARTITION BY t.slot) AS times
    FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[]) AS t (ord, scope, slot, key, value)
        FULL JOIN written AS w USING (ord)
    WHERE coalesce(t.slot, 0) > 0 AND coalesce(w.position, 0) > 0
),
-- A row has the bytes of its key and value, 0 for a removed key, and those that it had before this write. So it says what
-- the write has added to the counters of its owner.
session_keys AS (
    INSERT INTO {schema}.session_states AS k (app_name, user_id, session_id, key, value, bytes, seq)
    SELECT app_name, user_id, session_id, key, value, bytes, seq FROM changed WHERE scope = 'session' AND nth = times
    ON CONFLICT (app_name, user_id, session_id, key) DO UPDATE SET
        value = excluded.value, bytes = excluded.bytes, bytes_before = k.bytes, seq = excluded.seq
    RETURNING app_name, user_id, session_id, bytes - bytes_before AS more_bytes,
        (bytes > 0)::int - (bytes_before > 0)::int AS more_keys
),
user_keys AS (
    INSERT INTO {schema}.user_states AS k (app_name, user_id, key, value, bytes, version, position)
    SELECT app_name, user_id, key, value, bytes, times, position FROM changed WHERE scope = 'user' AND nth = times
    ON CONFLICT (app_name, user_id, key) DO UPDATE SET
        value = excluded.value, bytes = excluded.bytes, bytes_before = k.bytes, version = k.version + excluded.version,
        position = excluded.position
    RETURNING 'user' AS scope, app_name, user_id AS owner, key, version, bytes - bytes_before AS more_bytes,
        (bytes > 0)::int - (bytes_before > 0)::int AS more_keys
),
app_keys AS (
    INSERT INTO {schema}.app_states AS k (app_name, key, value, bytes, version, position)
    SELECT app_name, key, value, bytes, times, position FROM changed WHERE scope = 'app' AND nth = times
    ON CONFLICT (app_name, key) DO UPDATE SET
        value = excluded.value, bytes = excluded.bytes, bytes_before = k.bytes, version = k.version + excluded.version,
        position = excluded.position
    RETURNING 'app' AS scope, app_name, '' AS owner, key, version, bytes - bytes_before AS more_bytes,
        (bytes > 0)::int - (bytes_before > 0)::int AS more_keys
),
logged AS (
    INSERT INTO {schema}.state_log (
        app_name, scope, user_id, position, key, version, value, session_user_id, session_id, seq, event_id, author,
        time, xid
    )
    SELECT
        app_name, scope, owner, c.position, key, k.version - c.times + c.nth, c.value, c.session_user_id,
        c.session_id, c.seq, c.id, c.author, c.timestamp, pg_catalog.pg_current_xact_id()
    FROM (SELECT * FROM user_keys UNION ALL SELECT * FROM app_keys) AS k
        FULL JOIN changed AS c USING (scope, app_name, owner, key)
    WHERE coalesce(k.version, 0) > 0
),
-- The rows exist and are locked.
user_counts AS (
    INSERT INTO {schema}.users AS u (app_name, user_id, keys, bytes)
    SELECT app_name, owner, pg_catalog.sum(more_keys), pg_catalog.sum(more_bytes) FROM user_keys
    GROUP BY app_name, owner
    HAVING pg_catalog.sum(more_keys) <> 0 OR pg_catalog.sum(more_bytes) <> 0
    ON CONFLICT (app_name, user_id) DO UPDATE SET keys = u.keys + excluded.keys, bytes = u.bytes + excluded.bytes
),
app_counts AS (
    INSERT INTO {schema}.apps AS a (app_name, keys, bytes)
    SELECT app_name, pg_catalog.sum(more_keys), pg_catalog.sum(more_bytes) FROM app_keys
    GROUP BY app_name
    HAVING pg_catalog.sum(more_keys) <> 0 OR pg_catalog.sum(more_bytes) <> 0
    ON CONFLICT (app_name) DO UPDATE SET keys = a.keys + excluded.keys, bytes = a.bytes + excluded.bytes
)
