UNION ALL
SELECT 'session', NULL, NULL, found.key, found.value, NULL, NULL
FROM pg_catalog.unnest($7::text[]) AS wanted (key) CROSS JOIN LATERAL (
    SELECT s.key, s.value FROM {schema}.session_states AS s
    WHERE s.app_name = $1 AND s.user_id = $2 AND s.session_id = $3 AND s.key = wanted.key AND s.value IS NOT NULL
    LIMIT 1
) AS found
UNION ALL
SELECT 'user', NULL, NULL, found.key, found.value, NULL, NULL
FROM pg_catalog.unnest($8::text[]) AS wanted (key) CROSS JOIN LATERAL (
    SELECT u.key, u.value FROM {schema}.user_states AS u
    WHERE u.app_name = $1 AND u.user_id = $2 AND u.key = wanted.key AND u.value IS NOT NULL
    LIMIT 1
) AS found
UNION ALL
SELECT 'app', NULL, NULL, found.key, found.value, NULL, NULL
FROM pg_catalog.unnest($9::text[]) AS wanted (key) CROSS JOIN LATERAL (
    SELECT a.key, a.value FROM {schema}.app_states AS a
    WHERE a.app_name = $1 AND a.key = wanted.key AND a.value IS NOT NULL
    LIMIT 1
) AS found
