-- Version 6: bodies that are left to a broker apart.

-- bodiless: 0 = the body is here. 1 = it could not be read where it lies. 2 = it lies at the broker, in the copy that copy_*
-- names, and is fetched when it is asked for. 3 = it lay there, and was gone when it was asked for.
CREATE INDEX entries_pointers ON entries (flow, copy_name, copy_partition, copy_position)
    WHERE bodiless = 2 AND message IS NOT NULL;
