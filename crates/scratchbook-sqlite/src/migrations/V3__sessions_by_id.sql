-- Whose session it is that has an id. An append changes nothing in it.
CREATE INDEX sessions_by_id ON sessions (app_name, id);
