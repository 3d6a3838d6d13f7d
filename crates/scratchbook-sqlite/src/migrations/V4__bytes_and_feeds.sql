-- How much of a session is stored: the bytes of its events, and of the state with which their fold begins unless that is
-- empty. An append adds to it in the row that it writes anyway.
ALTER TABLE sessions ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;

UPDATE sessions SET bytes = (
    SELECT coalesce(sum(octet_length(event)), 0) FROM events
    WHERE events.app_name = sessions.app_name AND events.user_id = sessions.user_id AND events.session_id = sessions.id
) + coalesce((
    SELECT octet_length(state) FROM initial_states
    WHERE initial_states.app_name = sessions.app_name AND initial_states.user_id = sessions.user_id
        AND initial_states.session_id = sessions.id AND state <> '{}'
), 0);

-- A page of a feed costs what it returns, whatever other apps and other users have committed. The position of an event is
-- the number of its row, which every index ends with.
CREATE INDEX events_of_app ON events (app_name) WHERE log_position IS NULL;
CREATE INDEX events_of_user ON events (app_name, user_id) WHERE log_position IS NULL;
CREATE INDEX initial_states_of_user ON initial_states (app_name, user_id, position);
CREATE INDEX state_log_of_user_without_event ON state_log (app_name, user_id, position)
    WHERE scope = 'user' AND (seq IS NULL OR seq = 0);
