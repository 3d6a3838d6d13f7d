-- Whose session it is that has an id. By a hash of app and id, not by them: an index that begins with the app would look
-- to the planner like those by which sessions are addressed, and reads all users who have the id.
CREATE INDEX sessions_by_id ON sessions (pg_catalog.hashtextextended(app_name, pg_catalog.hashtextextended(id, 0)));
