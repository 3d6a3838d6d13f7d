-- Keys by scope and name: the value, which is NULL if the key was removed, and the place where each was last written.
SELECT wanted.ord, found.value, found.place
FROM
    unnest($4::text[], $5::text[]) WITH ORDINALITY AS wanted (scope, key, ord)
    CROSS JOIN LATERAL (
        (
            SELECT s.value, s.seq AS place FROM {schema}.session_states AS s
            WHERE
                wanted.scope = 'session'
                AND s.app_name = $1 AND s.user_id = $2 AND s.session_id = $3 AND s.key = wanted.key
            LIMIT 1
        )
        UNION ALL
        (
            SELECT u.value, u.position FROM {schema}.user_states AS u
            WHERE wanted.scope = 'user' AND u.app_name = $1 AND u.user_id = $2 AND u.key = wanted.key
            LIMIT 1
        )
        UNION ALL
        (
            SELECT a.value, a.position FROM {schema}.app_states AS a
            WHERE wanted.scope = 'app' AND a.app_name = $1 AND a.key = wanted.key
            LIMIT 1
        )
    ) AS found
