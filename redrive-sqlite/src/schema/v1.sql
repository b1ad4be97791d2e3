-- Version 1.

CREATE TABLE queues (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    ready      INTEGER NOT NULL DEFAULT 0,   -- kept, not counted
    waiting    INTEGER NOT NULL DEFAULT 0,   -- kept, not counted
    size_limit INTEGER,                      -- NULL: the default of the opener
    dedup_ms   INTEGER,                      -- NULL: an id is free as soon as its message is gone
    created    INTEGER NOT NULL
) STRICT;

-- due: 0 = ready, in the order of id; > 0 = not before this time (unix ms); NULL = not to be delivered (held, dead,
-- parked, discarded, archived). The small columns stand first, so that a look at them reads no overflow page.
CREATE TABLE messages (
    id           INTEGER PRIMARY KEY,
    queue        INTEGER NOT NULL,
    mid          TEXT NOT NULL,
    due          INTEGER,
    enqueued     INTEGER NOT NULL,
    size         INTEGER NOT NULL,
    entry        INTEGER,
    parent       BLOB,
    content_type TEXT,
    key          BLOB,
    headers      BLOB,
    body         BLOB
) STRICT;
CREATE UNIQUE INDEX messages_mid ON messages (queue, mid);
CREATE INDEX messages_ready ON messages (queue) WHERE due = 0;
CREATE INDEX messages_due ON messages (queue, due) WHERE due > 0;
CREATE INDEX messages_entry ON messages (entry) WHERE entry IS NOT NULL;

CREATE TABLE recent (
    queue INTEGER NOT NULL,
    mid   TEXT NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (queue, mid)
) STRICT, WITHOUT ROWID;
CREATE INDEX recent_until ON recent (until);

CREATE TABLE entries (
    eid             INTEGER PRIMARY KEY,
    id              BLOB NOT NULL UNIQUE,
    flow            TEXT NOT NULL,
    state           INTEGER NOT NULL,
    earlier         INTEGER,                 -- the state that a restore goes back to
    message         INTEGER,                 -- the row in messages while the body is kept
    mid             TEXT NOT NULL,
    message_key     TEXT,
    type            TEXT,
    content_type    TEXT,
    size            INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,
    first_failed    INTEGER NOT NULL,
    last_failed     INTEGER NOT NULL,
    changed         INTEGER NOT NULL,
    due             INTEGER,
    class           TEXT NOT NULL,
    reason          TEXT NOT NULL,
    grp             TEXT,
    http_status     INTEGER,
    owner           TEXT,
    entity          TEXT,
    tenant          TEXT,
    correlation     TEXT,
    causation       TEXT,
    parent          BLOB,
    replays         INTEGER NOT NULL DEFAULT 0,
    replay          INTEGER,                 -- the replay whose outcome is open
    replay_pos      INTEGER,
    lane            TEXT,
    held_behind     TEXT,
    lines           INTEGER NOT NULL DEFAULT 0,
    handler_version TEXT,
    source_kind     TEXT NOT NULL,
    source_name     TEXT NOT NULL,
    partition       INTEGER,
    position        INTEGER,
    payload_hash    BLOB,
    error_type      TEXT,
    error_message   TEXT NOT NULL,
    because         TEXT NOT NULL,
    chain           TEXT NOT NULL,
    headers         BLOB
) STRICT;
CREATE INDEX entries_last ON entries (last_failed);
CREATE INDEX entries_state ON entries (state, last_failed);
CREATE INDEX entries_flow ON entries (flow, last_failed);
CREATE INDEX entries_flow_state ON entries (flow, state, last_failed);
CREATE INDEX entries_flow_first ON entries (flow, state, first_failed);
CREATE INDEX entries_group ON entries (grp, last_failed) WHERE grp IS NOT NULL;
CREATE INDEX entries_class ON entries (class, last_failed);
CREATE INDEX entries_reason ON entries (reason, last_failed);
CREATE INDEX entries_type ON entries (type, last_failed) WHERE type IS NOT NULL;
CREATE INDEX entries_tenant ON entries (tenant, last_failed) WHERE tenant IS NOT NULL;
CREATE INDEX entries_mid ON entries (mid);
-- Few entries share one of these, so they are sorted after they are found, and a retry does not touch the index.
CREATE INDEX entries_key ON entries (message_key) WHERE message_key IS NOT NULL;
CREATE INDEX entries_entity ON entries (entity) WHERE entity IS NOT NULL;
CREATE INDEX entries_correlation ON entries (correlation) WHERE correlation IS NOT NULL;
CREATE INDEX entries_lane ON entries (flow, lane) WHERE lane IS NOT NULL;

-- At most 32 lines an entry: the first, and the last 31.
CREATE TABLE history (
    entry INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    line  TEXT NOT NULL,
    PRIMARY KEY (entry, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE counts (
    flow  TEXT NOT NULL,
    state INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (flow, state)
) STRICT, WITHOUT ROWID;

CREATE TABLE failure_groups (
    flow       TEXT NOT NULL,
    grp        TEXT NOT NULL,
    class      TEXT NOT NULL,
    reason     TEXT NOT NULL,
    type       TEXT,
    example    TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    last_seen  INTEGER NOT NULL,
    PRIMARY KEY (flow, grp)
) STRICT, WITHOUT ROWID;

CREATE TABLE group_counts (
    flow  TEXT NOT NULL,
    grp   TEXT NOT NULL,
    state INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (flow, grp, state)
) STRICT, WITHOUT ROWID;

-- A lane is there while it has a failed head or followers; count = its entries that are held.
CREATE TABLE lanes (
    flow  TEXT NOT NULL,
    lane  TEXT NOT NULL,
    head  BLOB,
    route TEXT,
    count INTEGER NOT NULL,
    PRIMARY KEY (flow, lane)
) STRICT, WITHOUT ROWID;
CREATE INDEX lanes_head ON lanes (head) WHERE head IS NOT NULL;

CREATE TABLE audit (
    number  INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    who     TEXT NOT NULL,
    what    TEXT NOT NULL,
    subject TEXT NOT NULL,
    why     TEXT NOT NULL,
    count   INTEGER NOT NULL
) STRICT;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'a line of the audit is never changed'); END;
CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'a line of the audit is never removed'); END;

CREATE TABLE controls (
    id     INTEGER PRIMARY KEY,
    flow   TEXT NOT NULL,
    kind   TEXT NOT NULL,
    target TEXT NOT NULL,
    who    TEXT NOT NULL,
    why    TEXT NOT NULL,
    at     INTEGER NOT NULL,
    UNIQUE (flow, kind, target)
) STRICT;

CREATE TABLE replays (
    rid       INTEGER PRIMARY KEY,
    id        BLOB NOT NULL UNIQUE,
    state     TEXT NOT NULL,
    filter    TEXT NOT NULL,
    who       TEXT NOT NULL,
    why       TEXT NOT NULL,
    created   INTEGER NOT NULL,
    ended     INTEGER,
    rate      TEXT,
    canary    INTEGER,
    total     INTEGER NOT NULL DEFAULT 0,
    sent      INTEGER NOT NULL DEFAULT 0,
    recovered INTEGER NOT NULL DEFAULT 0,
    failed    INTEGER NOT NULL DEFAULT 0,
    skipped   INTEGER NOT NULL DEFAULT 0,
    place     INTEGER NOT NULL DEFAULT 0     -- everything up to this item is sent or skipped
) STRICT;

CREATE TABLE replay_items (
    replay  INTEGER NOT NULL,
    pos     INTEGER NOT NULL,
    entry   BLOB NOT NULL,
    outcome INTEGER NOT NULL,
    was     INTEGER NOT NULL,
    PRIMARY KEY (replay, pos)
) STRICT, WITHOUT ROWID;

CREATE TABLE processed (
    mid     TEXT NOT NULL,
    handler TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (mid, handler)
) STRICT, WITHOUT ROWID;
CREATE INDEX processed_at ON processed (at);

CREATE VIEW message_retry_ledger AS
SELECT
    mid AS message_id,
    entity AS aggregate_id,
    type AS message_type,
    strftime('%Y-%m-%dT%H:%M:%fZ', first_failed / 1000.0, 'unixepoch') AS first_seen_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', last_failed / 1000.0, 'unixepoch') AS last_failed_at,
    attempts AS attempt_count,
    reason AS last_reason,
    CASE state
        WHEN 0 THEN 'waiting' WHEN 1 THEN 'held' WHEN 2 THEN 'dead' WHEN 3 THEN 'parked' WHEN 4 THEN 'replaying'
        WHEN 5 THEN 'recovered' WHEN 6 THEN 'discarded' WHEN 7 THEN 'rejected' WHEN 8 THEN 'archived'
    END AS state,
    owner AS owner_team,
    'sha256:' || lower(hex(payload_hash)) AS payload_hash
FROM entries;
