-- A page of the feed of an app ($1), or of one of its users ($2, which is NULL for the app): the commits that the
-- snapshot $3 does not show and a second snapshot shows. The second snapshot is $4 or, if that is NULL, one that shows
-- what this statement sees. The rows are in the order of positions from $5 on: about $6 of each kind, and all rows of
-- the last position.
--
-- A snapshot that shows a commit also shows all earlier commits to its session, user and app, and positions are
-- assigned under the locks of these. So the commits to each of them stay in order from one snapshot to the next.
-- Neither the order of transactions nor a bound on positions would guarantee this. Sessions that have expired ($8 is
-- the current time) are left out.
WITH window_ AS MATERIALIZED (
    SELECT $3::pg_snapshot AS s1, coalesce($4::pg_snapshot, ({now})) AS s2
),
first AS MATERIALIZED ({first}),
-- The position up to which the rows are read.
last AS MATERIALIZED (
    SELECT least(e.position, l.position, i.position, r.position) AS position
    FROM
        (SELECT 1) AS one
        LEFT JOIN LATERAL (
            SELECT t.position FROM {schema}.events AS t CROSS JOIN window_ AS w
            WHERE
                t.app_name = $1 AND NOT t.copied AND t.position >= (SELECT position FROM first)
                AND {of user} AND NOT pg_catalog.pg_visible_in_snapshot(t.xid, w.s1)
                AND pg_catalog.pg_visible_in_snapshot(t.xid, w.s2)
            ORDER BY {order} OFFSET $6 - 1 LIMIT 1
        ) AS e ON true
        LEFT JOIN LATERAL (
            SELECT t.position FROM {schema}.state_log AS t CROSS JOIN window_ AS w
            WHERE
                t.app_name = $1 AND t.event_id = '' AND t.position >= (SELECT position FROM first)
                AND {state of user}
                AND NOT pg_catalog.pg_visible_in_snapshot(t.xid, w.s1)
                AND pg_catalog.pg_visible_in_snapshot(t.xid, w.s2)
            ORDER BY {order} OFFSET $6 - 1 LIMIT 1
        ) AS l ON true
        LEFT JOIN LATERAL (
            SELECT t.position FROM {schema}.initial_states AS t CROSS JOIN window_ AS w
            WHERE
                t.app_name = $1 AND t.position IS NOT NULL AND t.position >= (SELECT position FROM first)
                AND {of user} AND NOT pg_catalog.pg_visible_in_snapshot(t.xid, w.s1)
                AND pg_catalog.pg_visible_in_snapshot(t.xid, w.s2)
            ORDER BY {order} OFFSET $6 - 1 LIMIT 1
        ) AS i ON true
        LEFT JOIN LATERAL (
            SELECT t.position FROM {schema}.removals AS t CROSS JOIN window_ AS w
            WHERE
                t.app_name = $1 AND t.position >= (SELECT position FROM first)
                AND {of user} AND NOT pg_catalog.pg_visible_in_snapshot(t.xid, w.s1)
                AND pg_catalog.pg_visible_in_snapshot(t.xid, w.s2)
            ORDER BY {order} OFFSET $6 - 1 LIMIT 1
        ) AS r ON true
),
upto AS MATERIALIZED (SELECT coalesce(position, 9223372036854775807) AS position FROM last)
SELECT
    'window' AS kind, last.position, w.s2::text AS user_id, pg_catalog.pg_current_snapshot()::text AS session_id,
    -- Whether this reader may have missed a removal whose record was dropped. Only the last dropped record is
    -- remembered. An earlier one may belong to a transaction that the snapshot does not show, although it shows that of
    -- the last record. A reader that starts at the beginning misses none that were dropped before.
    (
        SELECT 1 FROM {schema}.removal_ends AS r
        WHERE r.app_name = $1 AND CASE
            WHEN pg_catalog.pg_snapshot_xmax(w.s1) > '3' THEN r.xid >= pg_catalog.pg_snapshot_xmin(w.s1)
            ELSE $4 IS NOT NULL AND r.xid >= pg_catalog.pg_snapshot_xmin(w.s2)
        END
    )::bigint AS seq, NULL AS text, NULL AS key, NULL::bigint AS version, NULL AS author, NULL::float8 AS time,
    NULL AS session_user_id
FROM window_ AS w CROSS JOIN last
UNION ALL
SELECT 'event', e.position, e.user_id, e.session_id, e.seq, e.event, NULL, NULL, NULL, NULL, NULL
FROM (
    SELECT t.* FROM {schema}.events AS t CROSS JOIN window_ AS w
    WHERE
        t.app_name = $1 AND NOT t.copied AND t.position >= (SELECT position FROM first)
        AND t.position <= (SELECT position FROM upto)
        AND {of user} AND NOT pg_catalog.pg_visible_in_snapshot(t.xid, w.s1)
        AND pg_catalog.pg_visible_in_snapshot(t.xid, w.s2)
    ORDER BY {order} LIMIT $7
) AS e
WHERE coalesce(
    (
        SELECT s.expire_time FROM {schema}.sessions AS s
        WHERE s.app_name = $1 AND s.user_id = e.user_id AND s.id >= e.session_id AND s.id <= e.session_id
        ORDER BY s.id LIMIT 1
    ) > $8, true
)
UNION ALL
SELECT l.scope, l.position, l.user_id, l.session_id, l.seq, l.value, l.key, l.version, l.author, l.time, l.session_user_id
FROM (
    SELECT t.* FROM {schema}.state_log AS t CROSS JOIN window_ AS w
    WHERE
        t.app_name = $1 AND t.event_id = '' AND t.position >= (SELECT position FROM first)
        AND t.position <= (SELECT position FROM upto)
        AND {state of user}
        AND NOT pg_catalog.pg_visible_in_snapshot(t.xid, w.s1) AND pg_catalog.pg_visible_in_snapshot(t.xid, w.s2)
    ORDER BY {order} LIMIT $7
) AS l
UNION ALL
SELECT 'created', i.position, i.user_id, i.session_id, i.forked_at, i.state, NULL, NULL, NULL, NULL, NULL
FROM (
    SELECT t.* FROM {schema}.initial_states AS t CROSS JOIN window_ AS w
    WHERE
        t.app_name = $1 AND t.position IS NOT NULL AND t.position >= (SELECT position FROM first)
        AND t.position <= (SELECT position FROM upto)
        AND {of user} AND NOT pg_catalog.pg_visible_in_snapshot(t.xid, w.s1)
        AND pg_catalog.pg_visible_in_snapshot(t.xid, w.s2)
    ORDER BY {order} LIMIT $7
) AS i
WHERE coalesce(
    (
        SELECT s.expire_time FROM {schema}.sessions AS s
        WHERE s.app_name = $1 AND s.user_id = i.user_id AND s.id >= i.session_id AND s.id <= i.session_id
        ORDER BY s.id LIMIT 1
    ) > $8, true
)
UNION ALL
SELECT
    'removed', r.position, r.user_id, r.session_id, r.count, r.kind, NULL, NULL, NULL,
    r.time / 1000000.0::float8, NULL
FROM (
    SELECT t.* FROM {schema}.removals AS t CROSS JOIN window_ AS w
    WHERE
        t.app_name = $1 AND t.position >= (SELECT position FROM first)
        AND t.position <= (SELECT position FROM upto)
        AND {of user} AND NOT pg_catalog.pg_visible_in_snapshot(t.xid, w.s1)
        AND pg_catalog.pg_visible_in_snapshot(t.xid, w.s2)
    ORDER BY {order} LIMIT $7
) AS r
