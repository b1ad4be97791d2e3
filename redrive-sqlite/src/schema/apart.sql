-- Version 4: messages of brokers that the ledger stands apart from.

-- home: the queue is a flow's own beside its broker. twin: the message lies in such a queue, where ids may repeat. It
-- stands behind the body, but takes no room there and is read without it.
ALTER TABLE queues ADD COLUMN home INTEGER NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN twin INTEGER;
DROP INDEX messages_mid;
CREATE UNIQUE INDEX messages_mid ON messages (queue, mid) WHERE twin IS NULL;

-- keeper: who hands the message out next: 0 = this file, 1 = the broker; NULL = its queue is in this file.
-- published: when it was published at the place that it was read at first; NULL when that place has no number.
-- shelved: a copy may lie at the broker. copy_*: where; NULL while that is not known. copy_due: when the broker's copy is
-- handed out, of the last one that waits there.
-- person: when a person last did something to it. told: the last settlement of the broker that was written down.
ALTER TABLE entries ADD COLUMN keeper INTEGER;
ALTER TABLE entries ADD COLUMN published INTEGER;
ALTER TABLE entries ADD COLUMN shelved INTEGER NOT NULL DEFAULT 0;
ALTER TABLE entries ADD COLUMN copy_kind TEXT;
ALTER TABLE entries ADD COLUMN copy_name TEXT;
ALTER TABLE entries ADD COLUMN copy_partition INTEGER;
ALTER TABLE entries ADD COLUMN copy_position INTEGER;
ALTER TABLE entries ADD COLUMN copy_due INTEGER;
ALTER TABLE entries ADD COLUMN person INTEGER;
ALTER TABLE entries ADD COLUMN told TEXT;
CREATE INDEX entries_place ON entries (flow, source_name, partition, position) WHERE published IS NOT NULL;
CREATE INDEX entries_at_broker ON entries (flow, due) WHERE keeper = 1 AND state = 0;

-- What people brought to an end, until the broker has been told. Numbers are never used twice.
CREATE TABLE resolved (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    flow   TEXT NOT NULL,
    entry  BLOB NOT NULL,
    state  INTEGER NOT NULL
) STRICT;
CREATE INDEX resolved_flow ON resolved (flow, number);

CREATE TABLE positions (
    name     TEXT PRIMARY KEY,
    position TEXT NOT NULL
) STRICT, WITHOUT ROWID;
