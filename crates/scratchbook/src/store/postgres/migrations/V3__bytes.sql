-- How much of a session is stored: the bytes of its events, and of the state with which their fold begins unless that is
-- empty. An append adds to it in the row that it writes anyway.
ALTER TABLE sessions ADD COLUMN bytes bigint NOT NULL DEFAULT 0;

UPDATE sessions AS s SET bytes = coalesce(e.bytes, 0) + coalesce(pg_catalog.octet_length(i.state), 0)
FROM
    sessions AS o
    LEFT JOIN (
        SELECT app_name, user_id, session_id, pg_catalog.sum(pg_catalog.octet_length(event)) AS bytes FROM events
        GROUP BY app_name, user_id, session_id
    ) AS e ON e.app_name = o.app_name AND e.user_id = o.user_id AND e.session_id = o.id
    LEFT JOIN initial_states AS i
        ON i.app_name = o.app_name AND i.user_id = o.user_id AND i.session_id = o.id AND i.state <> '{}'
WHERE s.app_name = o.app_name AND s.user_id = o.user_id AND s.id = o.id;
