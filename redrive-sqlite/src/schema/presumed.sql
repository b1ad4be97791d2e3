-- Version 5: what is only presumed of a message at a broker apart.

-- presumed: of a recovered entry, that it is only taken to have recovered: the name of the lane that it was the head of,
-- or nothing but an empty text. bodiless: its body could not be read where it lies, so it is not sent again.
ALTER TABLE entries ADD COLUMN presumed TEXT;
ALTER TABLE entries ADD COLUMN bodiless INTEGER NOT NULL DEFAULT 0;
