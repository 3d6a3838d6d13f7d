-- Whose session it is that has an id. An append changes nothing in it.
--
-- No server takes back an index that was made, and not every one knows IF NOT EXISTS for it.
SET @make_index = IF(
    EXISTS (
        SELECT 1 FROM information_schema.STATISTICS
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{prefix}sessions' AND INDEX_NAME = 'sessions_by_id'
    ),
    'DO 0',
    'CREATE INDEX sessions_by_id ON `{prefix}sessions` (app_name, id)'
);

PREPARE make_index FROM @make_index;

EXECUTE make_index;

DEALLOCATE PREPARE make_index;

-- Creations whose id has to be unique in its app take turns by these rows, of which each stands for many ids. A row is
-- changed and not only locked, so that two nodes of a cluster do not take it at the same time.
CREATE TABLE IF NOT EXISTS `{prefix}id_turns` (
    slot SMALLINT NOT NULL,          -- a hash of the app and the id
    turns BIGINT NOT NULL,           -- how often it was taken
    PRIMARY KEY (slot)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
