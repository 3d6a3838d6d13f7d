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
