-- The running hash of each event: a session's first event continues the session's hash, each other the hash of the
-- event before it. `rest` has the hashed bytes of the later events, 72 each, so that a step of the recursion reads only
-- them.
linked AS (
    SELECT place, 1::bigint AS nth, {first} AS running_hash, pg_catalog.substring(hashed, 73) AS rest
    FROM (
        SELECT
            place, (pg_catalog.array_agg(head))[1] AS head,
            pg_catalog.string_agg(pg_catalog.int8send(seq) || hash || text_hash, ''::bytea ORDER BY nth) AS hashed
        FROM written GROUP BY place
    ) AS sessions
    UNION ALL
    SELECT place, nth + 1, {next}, pg_catalog.substring(rest, 73)
    FROM linked WHERE pg_catalog.length(rest) > 0
),
