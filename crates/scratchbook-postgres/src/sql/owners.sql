-- Apps and users after an owner, each app before its users: those with a row, and those that only have artifacts.
WITH of_artifacts AS (
    SELECT DISTINCT app_name, user_id FROM {schema}.artifacts
    WHERE (app_name, user_id) {users} ($1, $2) ORDER BY app_name, user_id LIMIT $3
)
SELECT app_name, NULL AS user_id FROM (
    (SELECT app_name FROM {schema}.apps WHERE app_name {apps} $1 ORDER BY app_name LIMIT $3)
    UNION SELECT app_name FROM of_artifacts WHERE app_name {apps} $1
) AS of_apps
UNION ALL
SELECT app_name, user_id FROM (
    (SELECT app_name, user_id FROM {schema}.users
     WHERE (app_name, user_id) {users} ($1, $2) ORDER BY app_name, user_id LIMIT $3)
    UNION SELECT app_name, user_id FROM of_artifacts
) AS of_users
ORDER BY app_name, user_id NULLS FIRST LIMIT $3
