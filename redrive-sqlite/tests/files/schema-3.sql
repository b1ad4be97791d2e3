-- A data file of schema 3, as that version wrote it. Never edited.
PRAGMA auto_vacuum=INCREMENTAL;
PRAGMA application_id=1380209238;
PRAGMA user_version=3;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE queues (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    ready      INTEGER NOT NULL DEFAULT 0,   -- kept, not counted
    waiting    INTEGER NOT NULL DEFAULT 0,   -- kept, not counted
    size_limit INTEGER,                      -- NULL: the default of the opener
    dedup_ms   INTEGER,                      -- NULL: an id is free as soon as its message is gone
    created    INTEGER NOT NULL
) STRICT;
INSERT INTO queues VALUES(1,'returns',1,0,50,60000,1782896400000);
INSERT INTO queues VALUES(2,'orders',1,2,NULL,NULL,1782896400000);
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
INSERT INTO messages VALUES(1,2,'waits',1782896460000,1782896400000,5,1,NULL,NULL,NULL,X'050f782d72657472792d617474656d7074023119782d66697273742d6661696c7572652d74696d657374616d700e3137383238393634303030303018782d6c6173742d6661696c7572652d74696d657374616d700e3137383238393634303030303014782d6c6173742d6572726f722d6d657373616765043530330a782d656e7472792d69642530316131653233342d386262622d373034622d623561642d663565623565393964313533',X'7761697473');
INSERT INTO messages VALUES(2,2,'dead',NULL,1782896400000,4,2,NULL,NULL,NULL,X'050f782d72657472792d617474656d7074023119782d66697273742d6661696c7572652d74696d657374616d700e3137383238393634303030303018782d6c6173742d6661696c7572652d74696d657374616d700e3137383238393634303030303014782d6c6173742d6572726f722d6d657373616765043530340a782d656e7472792d69642530316131653233342d386262632d373064342d386236612d663666366362313638383435',X'64656164');
INSERT INTO messages VALUES(3,2,'parked',NULL,1782896400000,6,3,NULL,NULL,NULL,X'050f782d72657472792d617474656d7074023119782d66697273742d6661696c7572652d74696d657374616d700e3137383238393634303030303018782d6c6173742d6661696c7572652d74696d657374616d700e3137383238393634303030303014782d6c6173742d6572726f722d6d657373616765043432320a782d656e7472792d69642530316131653233342d386262632d373064342d386236612d663666376462383830666137',X'7061726b6564');
INSERT INTO messages VALUES(5,2,'ready',0,1782896400000,5,NULL,NULL,NULL,NULL,NULL,X'7265616479');
INSERT INTO messages VALUES(6,1,'return-1',0,1782896400000,8,NULL,NULL,NULL,NULL,NULL,X'72657475726e2d31');
INSERT INTO messages VALUES(7,2,'later',1782896490000,1782896400000,5,NULL,NULL,NULL,X'637573746f6d65722d31',NULL,X'6c61746572');
CREATE TABLE recent (
    queue INTEGER NOT NULL,
    mid   TEXT NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (queue, mid)
) STRICT, WITHOUT ROWID;
INSERT INTO recent VALUES(1,'return-1',1782896460000);
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
, mark_expired INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO entries VALUES(1,X'01a1e2348bbb704bb5adf5eb5e99d153','orders',0,NULL,1,'waits',NULL,NULL,NULL,5,1,1782896400000,1782896400000,1782896400000,1782896460000,'TRANSIENT','DOWNSTREAM_TIMEOUT','f6605391e7d96801',503,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,1,'v7','embedded','orders',NULL,NULL,X'7c4a345722b40acbdc121843d43b674e9f7c50201f26b4b915931b4f2a73d3d0','Timeout','503','it may work later','[{"type":"Timeout","message":"503"}]',NULL,0);
INSERT INTO entries VALUES(2,X'01a1e2348bbc70d48b6af6f6cb168845','orders',2,NULL,2,'dead',NULL,NULL,NULL,4,1,1782896400000,1782896400000,1782896400000,NULL,'TRANSIENT','DOWNSTREAM_TIMEOUT','f6605391e7d96801',503,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,1,'v7','embedded','orders',NULL,NULL,X'28a3a5e81d1e89f0efc70b63bf717b921373fc7fac70bc1b7e4d466799c0c6b0','Timeout','504','it may work later','[{"type":"Timeout","message":"504"}]',NULL,0);
INSERT INTO entries VALUES(3,X'01a1e2348bbc70d48b6af6f7db880fa7','orders',6,3,3,'parked',NULL,NULL,NULL,6,1,1782896400000,1782896400000,1782896400010,NULL,'TRANSIENT','DOWNSTREAM_TIMEOUT','f6605391e7d96801',503,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,2,'v7','embedded','orders',NULL,NULL,X'bbe7d3d2e328e1f6bfda920a268b216d1e22bf41bd028cdf6162bfcd2b826178','Timeout','422','it may work later','[{"type":"Timeout","message":"422"}]',NULL,0);
INSERT INTO entries VALUES(4,X'01a1e2348bbd7766932761f634fe2474','orders',5,NULL,NULL,'recovers',NULL,NULL,NULL,8,2,1782896400000,1782896400000,1782896400010,NULL,'TRANSIENT','DOWNSTREAM_TIMEOUT','f6605391e7d96801',503,NULL,NULL,NULL,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,2,'v7','embedded','orders',NULL,NULL,X'd709b860f0a8945697968ce6fb67b0f1c53d2f69c6ebc78e44a8a9c604dde877','Timeout','503','it may work later','[{"type":"Timeout","message":"503"}]',NULL,0);
CREATE TABLE history (
    entry INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    line  TEXT NOT NULL,
    PRIMARY KEY (entry, n)
) STRICT, WITHOUT ROWID;
INSERT INTO history VALUES(1,1,'{"at":"2026-07-01T09:00:00Z","what":"attempt","attempt":1,"took_ms":12,"class":"TRANSIENT","reason":"DOWNSTREAM_TIMEOUT","decision":"delay","because":"it may work later","due_at":"2026-07-01T09:01:00Z","error":{"type":"Timeout","message":"503","chain":[{"type":"Timeout","message":"503"}]},"http_status":503,"handler_version":"v7"}');
INSERT INTO history VALUES(2,1,'{"at":"2026-07-01T09:00:00Z","what":"attempt","attempt":1,"took_ms":12,"class":"TRANSIENT","reason":"DOWNSTREAM_TIMEOUT","decision":"delay","because":"it may work later","error":{"type":"Timeout","message":"504","chain":[{"type":"Timeout","message":"504"}]},"http_status":503,"handler_version":"v7"}');
INSERT INTO history VALUES(3,1,'{"at":"2026-07-01T09:00:00Z","what":"attempt","attempt":1,"took_ms":12,"class":"TRANSIENT","reason":"DOWNSTREAM_TIMEOUT","decision":"delay","because":"it may work later","error":{"type":"Timeout","message":"422","chain":[{"type":"Timeout","message":"422"}]},"http_status":503,"handler_version":"v7"}');
INSERT INTO history VALUES(3,2,'{"at":"2026-07-01T09:00:00.01Z","what":"discard","because":"the warehouse is back","by":"ann"}');
INSERT INTO history VALUES(4,1,'{"at":"2026-07-01T09:00:00Z","what":"attempt","attempt":1,"took_ms":12,"class":"TRANSIENT","reason":"DOWNSTREAM_TIMEOUT","decision":"delay","because":"it may work later","due_at":"2026-07-01T09:00:00.001Z","error":{"type":"Timeout","message":"503","chain":[{"type":"Timeout","message":"503"}]},"http_status":503,"handler_version":"v7"}');
INSERT INTO history VALUES(4,2,'{"at":"2026-07-01T09:00:00.01Z","what":"recovered"}');
CREATE TABLE counts (
    flow  TEXT NOT NULL,
    state INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (flow, state)
) STRICT, WITHOUT ROWID;
INSERT INTO counts VALUES('orders',0,1);
INSERT INTO counts VALUES('orders',2,1);
INSERT INTO counts VALUES('orders',3,0);
INSERT INTO counts VALUES('orders',5,1);
INSERT INTO counts VALUES('orders',6,1);
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
INSERT INTO failure_groups VALUES('orders','f6605391e7d96801','TRANSIENT','DOWNSTREAM_TIMEOUT',NULL,'503',1782896400000,1782896400000);
CREATE TABLE group_counts (
    flow  TEXT NOT NULL,
    grp   TEXT NOT NULL,
    state INTEGER NOT NULL,
    n     INTEGER NOT NULL,
    PRIMARY KEY (flow, grp, state)
) STRICT, WITHOUT ROWID;
INSERT INTO group_counts VALUES('orders','f6605391e7d96801',0,1);
INSERT INTO group_counts VALUES('orders','f6605391e7d96801',2,1);
INSERT INTO group_counts VALUES('orders','f6605391e7d96801',3,0);
INSERT INTO group_counts VALUES('orders','f6605391e7d96801',5,1);
INSERT INTO group_counts VALUES('orders','f6605391e7d96801',6,1);
CREATE TABLE lanes (
    flow  TEXT NOT NULL,
    lane  TEXT NOT NULL,
    head  BLOB,
    route TEXT,
    count INTEGER NOT NULL, released INTEGER NOT NULL DEFAULT 0, step INTEGER NOT NULL DEFAULT 1, skipped TEXT,
    PRIMARY KEY (flow, lane)
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
    number  INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    who     TEXT NOT NULL,
    what    TEXT NOT NULL,
    subject TEXT NOT NULL,
    why     TEXT NOT NULL,
    count   INTEGER NOT NULL
) STRICT;
INSERT INTO audit VALUES(1,1782896400010,'ann','discard','parked','the warehouse is back',1);
INSERT INTO audit VALUES(2,1782896400010,'ann','replay run','01a1e234-8bbe-7228-883b-cca31f9eb196','the warehouse is back',1);
INSERT INTO audit VALUES(3,1782896400010,'ann','replay pause','01a1e234-8bbe-7228-883b-cca31f9eb196','the warehouse is back',1);
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
INSERT INTO replays VALUES(1,X'01a1e2348bbe7228883bcca31f9eb196','paused','{}','ann','the warehouse is back',1782896400010,NULL,NULL,NULL,1,0,0,0,0,0);
CREATE TABLE replay_items (
    replay  INTEGER NOT NULL,
    pos     INTEGER NOT NULL,
    entry   BLOB NOT NULL,
    outcome INTEGER NOT NULL,
    was     INTEGER NOT NULL,
    PRIMARY KEY (replay, pos)
) STRICT, WITHOUT ROWID;
INSERT INTO replay_items VALUES(1,1,X'01a1e2348bbc70d48b6af6f6cb168845',0,2);
CREATE TABLE processed (
    mid     TEXT NOT NULL,
    handler TEXT NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (mid, handler)
) STRICT, WITHOUT ROWID;
INSERT INTO processed VALUES('recovers','orders',1782896400010);
CREATE UNIQUE INDEX messages_mid ON messages (queue, mid);
CREATE INDEX messages_ready ON messages (queue) WHERE due = 0;
CREATE INDEX messages_due ON messages (queue, due) WHERE due > 0;
CREATE INDEX messages_entry ON messages (entry) WHERE entry IS NOT NULL;
CREATE INDEX recent_until ON recent (until);
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
CREATE INDEX entries_key ON entries (message_key) WHERE message_key IS NOT NULL;
CREATE INDEX entries_entity ON entries (entity) WHERE entity IS NOT NULL;
CREATE INDEX entries_correlation ON entries (correlation) WHERE correlation IS NOT NULL;
CREATE INDEX lanes_head ON lanes (head) WHERE head IS NOT NULL;
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'a line of the audit is never changed'); END;
CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'a line of the audit is never removed'); END;
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
CREATE INDEX entries_followers ON entries (flow, lane, message) WHERE state = 1;
COMMIT;
