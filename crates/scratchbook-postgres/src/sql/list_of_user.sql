SELECT update_time, user_id, id, seq, expire_time, title, labels, create_time, bytes FROM {schema}.sessions
    WHERE app_name = $1 AND user_id = $3 AND (expire_time IS NULL OR expire_time > $6) AND (update_time, id) {from} ($2, $4)
    ORDER BY update_time {way}, id {way}
    LIMIT $5
