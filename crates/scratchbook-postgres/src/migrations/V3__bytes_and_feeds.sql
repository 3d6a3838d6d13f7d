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

-- A page of a user's feed costs what it returns, whatever other users have committed.
CREATE INDEX events_of_user_feed ON events (app_name, user_id, position) WHERE NOT copied;
CREATE INDEX initial_states_of_user_feed ON initial_states (app_name, user_id, position) WHERE position IS NOT NULL;
CREATE INDEX state_log_of_user_feed ON state_log (app_name, user_id, position) WHERE scope = 'user' AND event_id = '';
