
    -- A snapshot for the cursor of a reader that has read up to {from} and now reads everything that this statement
    -- sees: the statement's snapshot, cut off after the last transaction that wrote to the app. If PostgreSQL crashes
    -- before later transactions are on the disk, it assigns their numbers again. These transactions were rolled back,
    -- or sent notices, whose commits do not wait for the disk. A reader would miss the new commits with these numbers.
    SELECT pg_catalog.format(
        '%s:%s:%s', least(pg_catalog.pg_snapshot_xmin(newest.s)::text::bigint, newest.past), newest.past,
        (
            SELECT pg_catalog.string_agg(ran.xid::text, ',' ORDER BY ran.xid)
            FROM pg_catalog.pg_snapshot_xip(newest.s) AS ran (xid) WHERE ran.xid::text::bigint < newest.past
        )
    )::pg_snapshot
    FROM (
        SELECT pg_catalog.pg_current_snapshot() AS s, greatest(
            pg_catalog.pg_snapshot_xmax({from})::text::bigint,
            (
                SELECT t.xid::text::bigint + 1 FROM {schema}.events AS t
                WHERE t.app_name = $1 AND NOT t.copied ORDER BY t.xid DESC LIMIT 1
            ),
            (
                SELECT t.xid::text::bigint + 1 FROM {schema}.state_log AS t
                WHERE t.app_name = $1 AND t.event_id = '' ORDER BY t.xid DESC LIMIT 1
            ),
            (
                SELECT t.xid::text::bigint + 1 FROM {schema}.initial_states AS t
                WHERE t.app_name = $1 AND t.position IS NOT NULL ORDER BY t.xid DESC LIMIT 1
            ),
            (
                SELECT t.xid::text::bigint + 1 FROM {schema}.removals AS t
                WHERE t.app_name = $1 ORDER BY t.xid DESC LIMIT 1
            ),
            (SELECT pg_catalog.max(t.xid::text::bigint) + 1 FROM {schema}.removal_ends AS t WHERE t.app_name = $1)
        ) AS past
    ) AS newest
