
    -- The first position that the snapshot $3 does not show, found by the transactions that were running then and by
    -- later transactions. However long another transaction runs, only later rows are read.
    SELECT least(
        (
            SELECT pg_catalog.min(p.position) FROM (
                SELECT t.position FROM {schema}.events AS t
                WHERE
                    t.app_name = $1 AND NOT t.copied
                    AND t.xid >= (SELECT pg_catalog.pg_snapshot_xmax(s1) FROM window_)
                ORDER BY t.xid OFFSET 0
            ) AS p
        ),
        (
            SELECT pg_catalog.min(p.position) FROM (
                SELECT t.position FROM {schema}.state_log AS t
                WHERE
                    t.app_name = $1 AND t.event_id = ''
                    AND t.xid >= (SELECT pg_catalog.pg_snapshot_xmax(s1) FROM window_)
                ORDER BY t.xid OFFSET 0
            ) AS p
        ),
        (
            SELECT pg_catalog.min(p.position) FROM (
                SELECT t.position FROM {schema}.initial_states AS t
                WHERE
                    t.app_name = $1 AND t.position IS NOT NULL
                    AND t.xid >= (SELECT pg_catalog.pg_snapshot_xmax(s1) FROM window_)
                ORDER BY t.xid OFFSET 0
            ) AS p
        ),
        (
            SELECT pg_catalog.min(p.position) FROM (
                SELECT t.position FROM {schema}.removals AS t
                WHERE t.app_name = $1 AND t.xid >= (SELECT pg_catalog.pg_snapshot_xmax(s1) FROM window_)
                ORDER BY t.xid OFFSET 0
            ) AS p
        ),
        (
            SELECT pg_catalog.min(p.position) FROM
                window_ AS w CROSS JOIN LATERAL pg_catalog.pg_snapshot_xip(w.s1) AS ran (xid)
                CROSS JOIN LATERAL (
                    (
                        SELECT t.position FROM {schema}.events AS t
                        WHERE t.app_name = $1 AND NOT t.copied AND t.xid >= ran.xid AND t.xid <= ran.xid
                        ORDER BY t.xid, t.position LIMIT 1
                    )
                    UNION ALL
                    (
                        SELECT t.position FROM {schema}.state_log AS t
                        WHERE t.app_name = $1 AND t.event_id = '' AND t.xid >= ran.xid AND t.xid <= ran.xid
                        ORDER BY t.xid, t.position LIMIT 1
                    )
                    UNION ALL
                    (
                        SELECT t.position FROM {schema}.initial_states AS t
                        WHERE
                            t.app_name = $1 AND t.position IS NOT NULL AND t.xid >= ran.xid AND t.xid <= ran.xid
                        ORDER BY t.xid, t.position LIMIT 1
                    )
                    UNION ALL
                    (
                        SELECT t.position FROM {schema}.removals AS t
                        WHERE t.app_name = $1 AND t.xid >= ran.xid AND t.xid <= ran.xid
                        ORDER BY t.xid, t.position LIMIT 1
                    )
                ) AS p
        )
    ) AS position
