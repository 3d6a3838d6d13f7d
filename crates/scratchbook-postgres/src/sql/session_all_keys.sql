UNION ALL
SELECT 'session', NULL, NULL, key, value, NULL, NULL FROM {schema}.session_states
WHERE app_name = $1 AND user_id = $2 AND session_id = $3 AND value IS NOT NULL
UNION ALL
SELECT 'user', NULL, NULL, key, value, NULL, NULL FROM {schema}.user_states
WHERE app_name = $1 AND user_id = $2 AND value IS NOT NULL
UNION ALL
SELECT 'app', NULL, NULL, key, value, NULL, NULL FROM {schema}.app_states
WHERE app_name = $1 AND value IS NOT NULL
