-- Where in state_log a user's or an app's key was written last: an append that is to be refused for being late compares
-- it with what its writer has seen. It stands in the row that a write changes anyway.

ALTER TABLE user_states ADD COLUMN position INTEGER NOT NULL DEFAULT 0;
ALTER TABLE app_states ADD COLUMN position INTEGER NOT NULL DEFAULT 0;

UPDATE user_states SET position = last.position
FROM (
    SELECT app_name, user_id, key, max(position) AS position FROM state_log
    WHERE scope = 'user' GROUP BY app_name, user_id, key
) AS last
WHERE last.app_name = user_states.app_name AND last.user_id = user_states.user_id AND last.key = user_states.key;

UPDATE app_states SET position = last.position
FROM (
    SELECT app_name, key, max(position) AS position FROM state_log
    WHERE scope = 'app' GROUP BY app_name, key
) AS last
WHERE last.app_name = app_states.app_name AND last.key = app_states.key;
