-- Entries remember that a mark of their message has expired: what it told is done again by a replay.

ALTER TABLE entries ADD COLUMN mark_expired INTEGER NOT NULL DEFAULT 0;
