-- The running hash of each event: that of a session's first one continues what its row has, each other the one before it.
linked AS (
    SELECT w.ord, w.place, w.nth, w.in_session, {first} AS running_hash
    FROM written AS w WHERE w.nth = 1
    UNION ALL
    SELECT w.ord, w.place, w.nth, w.in_session, {next}
    FROM linked AS l JOIN written AS w ON w.place = l.place AND w.nth = l.nth + 1
    WHERE l.nth < l.in_session
),
