-- A page of a list: its sessions, and one more if there is a next page.
WITH found AS MATERIALIZED (
    {found}
),
page AS MATERIALIZED (SELECT * FROM found ORDER BY update_time {way}, user_id {way}, id {way} LIMIT $5 - 1),
{page}
