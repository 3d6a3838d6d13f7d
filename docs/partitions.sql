-- Partitions scratchbook's tables in PostgreSQL by hash of (app_name, user_id), with what is in them. `apps` and
-- `app_states` stay whole: no user owns their rows, and they are small.
--
-- Stop all writers, back up, then run it once, in the schema of the tables and as one transaction:
--   PGOPTIONS='-c search_path=agents' psql -1 -v ON_ERROR_STOP=1 -f partitions.sql "$URI"
DO $$
DECLARE
    parts CONSTANT int := 16;
    -- Read before the tables it names are renamed.
    overview CONSTANT text := pg_get_viewdef('session_overview'::regclass);
    tab text;
    options text;
    part record;
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'events'::regclass) = 'p' THEN
        RAISE EXCEPTION 'the tables are partitioned already';
    END IF;
    DROP VIEW session_overview;
    FOREACH tab IN ARRAY ARRAY[
        'users', 'sessions', 'initial_states', 'events', 'session_states', 'user_states', 'state_log', 'artifacts'
    ] LOOP
        EXECUTE format('ALTER TABLE %I RENAME TO %I', tab, tab || '_whole');
        EXECUTE format(
            'CREATE TABLE %I (LIKE %I INCLUDING ALL) PARTITION BY HASH (app_name, user_id)', tab, tab || '_whole'
        );
        -- A fillfactor is the partition's, not the table's.
        SELECT coalesce('WITH (' || array_to_string(reloptions, ', ') || ')', '') INTO options
        FROM pg_class WHERE oid = (tab || '_whole')::regclass;
        FOR number IN 0 .. parts - 1 LOOP
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF %I FOR VALUES WITH (MODULUS %s, REMAINDER %s) %s',
                tab || '_' || number, tab, parts, number, options
            );
        END LOOP;
        EXECUTE format('INSERT INTO %I SELECT * FROM %I', tab, tab || '_whole');
        EXECUTE format('DROP TABLE %I', tab || '_whole');
    END LOOP;
    -- scratchbook tells a lost race from damage by the names of two constraints, also where a number follows.
    ALTER TABLE artifacts RENAME CONSTRAINT artifacts_pkey1 TO artifacts_pkey;
    ALTER TABLE events RENAME CONSTRAINT events_app_name_user_id_session_id_id_key TO events_by_id;
    FOR part IN
        SELECT
            inhrelid::regclass AS index, inhparent::regclass::text AS of,
            row_number() OVER (PARTITION BY inhparent ORDER BY inhrelid) - 1 AS number
        FROM pg_inherits WHERE inhparent IN ('events_by_id'::regclass, 'artifacts_pkey'::regclass)
    LOOP
        EXECUTE format('ALTER INDEX %s RENAME TO %I', part.index, part.of || '_' || part.number);
    END LOOP;
    EXECUTE 'CREATE VIEW session_overview AS ' || overview;
END
$$;
