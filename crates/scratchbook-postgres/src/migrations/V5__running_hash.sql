-- The running hash of a session's events, by which changed, removed and inserted events are found. It is NULL, and the
-- event not covered, until it is computed: for the events that are here by now, in small steps, after this migration.
ALTER TABLE events ADD COLUMN running_hash bytea;

-- That of the event hashed_seq, from which the next append goes on if it is the last one; 0 before the first event, and -1
-- in a session that has no running hash yet.
ALTER TABLE sessions ADD COLUMN running_hash bytea, ADD COLUMN hashed_seq bigint NOT NULL DEFAULT -1;

-- That of the last pruned event; of a fork, where its original's begins. A program that does not know it leaves hashed_seq
-- behind seq when it prunes.
ALTER TABLE initial_states ADD COLUMN running_hash bytea, ADD COLUMN hashed_seq bigint NOT NULL DEFAULT 0;

-- What is not covered yet. An append to a session that is covered changes nothing in it.
CREATE INDEX sessions_unhashed ON sessions (app_name, user_id, id) WHERE hashed_seq < seq;
