-- Version 2: lanes that are held behind a head and let go in windows.

-- Version 1 had no heads: whatever it kept in a lane goes on.
UPDATE queues SET waiting = waiting + (
    SELECT count(*) FROM entries e JOIN messages m ON m.id = e.message WHERE e.state = 1 AND m.queue = queues.id);
UPDATE messages SET due = 1 WHERE id IN (SELECT message FROM entries WHERE state = 1 AND message IS NOT NULL);
INSERT INTO counts (flow, state, n)
    SELECT flow, 0, count(*) FROM entries WHERE state = 1 AND message IS NOT NULL GROUP BY flow
    ON CONFLICT (flow, state) DO UPDATE SET n = n + excluded.n;
INSERT INTO counts (flow, state, n)
    SELECT flow, 1, -count(*) FROM entries WHERE state = 1 AND message IS NOT NULL GROUP BY flow
    ON CONFLICT (flow, state) DO UPDATE SET n = n + excluded.n;
INSERT INTO group_counts (flow, grp, state, n)
    SELECT flow, grp, 0, count(*) FROM entries
    WHERE state = 1 AND message IS NOT NULL AND grp IS NOT NULL GROUP BY flow, grp
    ON CONFLICT (flow, grp, state) DO UPDATE SET n = n + excluded.n;
INSERT INTO group_counts (flow, grp, state, n)
    SELECT flow, grp, 1, -count(*) FROM entries
    WHERE state = 1 AND message IS NOT NULL AND grp IS NOT NULL GROUP BY flow, grp
    ON CONFLICT (flow, grp, state) DO UPDATE SET n = n + excluded.n;
UPDATE entries SET state = 0, due = 1 WHERE state = 1 AND message IS NOT NULL;
UPDATE entries SET lane = NULL WHERE lane IS NOT NULL;
DELETE FROM lanes;

-- entries.lane: of a held entry the lane that keeps it; of a waiting one the lane that let it go; of one that was put
-- away while it was held the lane that it is restored to.
-- released: entries that were let go and have not come to an end. step: how many are let go next. skipped: what a
-- person took out of the lane last, as JSON: rows and ids of messages.
ALTER TABLE lanes ADD COLUMN released INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN step INTEGER NOT NULL DEFAULT 1;
ALTER TABLE lanes ADD COLUMN skipped TEXT;

-- Nothing looks for a lane's entries but for those that are held, in the order in which they came.
DROP INDEX entries_lane;
CREATE INDEX entries_followers ON entries (flow, lane, message) WHERE state = 1;
