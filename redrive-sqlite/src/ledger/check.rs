//! Invariants of the file: what has to be true whatever happened before.

use redrive_engine::port::Problem;
use rusqlite::Connection;

use crate::fault::Done;

/// Findings that are named for each invariant.
const NAMED: usize = 20;

/// An invariant and the query that finds what breaks it: one text a row.
const INVARIANTS: &[(&str, &str)] = &[
    (
        "the counts of a flow's states are those of its entries",
        "SELECT 'flow ' || flow || ' state ' || state || ': kept ' || sum(kept) || ', counted ' || sum(real) FROM
         (SELECT flow, state, n AS kept, 0 AS real FROM counts
          UNION ALL SELECT flow, state, 0, count(*) FROM entries GROUP BY flow, state)
         GROUP BY flow, state HAVING sum(kept) <> sum(real)",
    ),
    (
        "the counts of a failure group are those of its entries",
        "SELECT 'group ' || grp || ' of ' || flow || ' state ' || state || ': kept ' || sum(kept) || ', counted '
                || sum(real) FROM
         (SELECT flow, grp, state, n AS kept, 0 AS real FROM group_counts
          UNION ALL SELECT flow, grp, state, 0, count(*) FROM entries WHERE grp IS NOT NULL GROUP BY flow, grp, state)
         GROUP BY flow, grp, state HAVING sum(kept) <> sum(real)",
    ),
    (
        "an entry's failure group is there",
        "SELECT 'entry ' || lower(hex(id)) FROM entries e WHERE grp IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM failure_groups g WHERE g.flow = e.flow AND g.grp = e.grp)",
    ),
    (
        "an open entry has its message, and the message has it",
        "SELECT 'entry ' || lower(hex(e.id)) || ' state ' || e.state FROM entries e
         LEFT JOIN messages m ON m.id = e.message AND m.entry = e.eid
         WHERE (e.source_kind = 'embedded' OR e.keeper IS NOT NULL) AND e.state NOT IN (5, 7) AND m.id IS NULL",
    ),
    (
        "a finished entry has no message",
        "SELECT 'entry ' || lower(hex(id)) || ' state ' || state FROM entries
         WHERE state IN (5, 7) AND message IS NOT NULL",
    ),
    (
        "a message that is not to be delivered has an entry that says why",
        "SELECT 'message ' || mid FROM messages WHERE due IS NULL AND entry IS NULL",
    ),
    (
        "a message's entry is there, is open, and means this message",
        "SELECT 'message ' || m.mid FROM messages m LEFT JOIN entries e ON e.eid = m.entry
         WHERE m.entry IS NOT NULL AND (e.eid IS NULL OR e.message IS NOT m.id OR e.state IN (5, 7))",
    ),
    (
        "what waits or is replayed is deliverable unless a broker apart keeps it, and nothing else that failed is",
        "SELECT 'entry ' || lower(hex(e.id)) || ' state ' || e.state FROM entries e JOIN messages m ON m.id = e.message
         WHERE (e.state IN (0, 4) AND e.keeper IS NOT 1) <> (m.due IS NOT NULL)",
    ),
    (
        "what is held or replayed is kept here",
        "SELECT 'entry ' || lower(hex(id)) || ' state ' || state FROM entries WHERE keeper = 1 AND state IN (1, 4)",
    ),
    (
        "only an entry whose broker stands apart knows of copies and places there",
        "SELECT 'entry ' || lower(hex(id)) FROM entries
         WHERE (keeper IS NULL AND (published IS NOT NULL OR shelved <> 0 OR copy_due IS NOT NULL
                                    OR person IS NOT NULL OR told IS NOT NULL))
            OR (copy_kind IS NULL) <> (copy_name IS NULL) OR (copy_kind IS NOT NULL AND shelved = 0)
            OR keeper NOT IN (0, 1)",
    ),
    (
        "only what has recovered at a broker apart is presumed to have",
        "SELECT 'entry ' || lower(hex(id)) || ' state ' || state FROM entries
         WHERE (presumed IS NOT NULL AND (state <> 5 OR keeper IS NOT 1)) OR (bodiless <> 0 AND keeper IS NULL)",
    ),
    (
        "a body is left to the broker only where its copy is known, and never from what can be handed out",
        "SELECT 'entry ' || lower(hex(e.id)) || ' state ' || e.state FROM entries e JOIN messages m ON m.id = e.message
         WHERE e.bodiless IN (2, 3)
           AND (e.copy_kind IS NULL OR e.payload_hash IS NULL OR m.due IS NOT NULL OR m.body IS NOT NULL
                OR e.state IN (1, 4))",
    ),
    (
        "the message of an entry whose broker stands apart lies in its flow's own queue",
        "SELECT 'entry ' || lower(hex(e.id)) || ' queue ' || coalesce(q.name, 'none') FROM entries e
         JOIN messages m ON m.id = e.message LEFT JOIN queues q ON q.id = m.queue
         WHERE e.keeper IS NOT NULL AND (q.name IS NOT e.flow || '.ledger' OR q.home = 0)",
    ),
    (
        "ids repeat only in the queue beside a broker",
        "SELECT 'message ' || m.mid || ' queue ' || q.name FROM messages m JOIN queues q ON q.id = m.queue
         WHERE m.twin IS NOT NULL AND q.home = 0",
    ),
    (
        "what people brought to an end stands in a state",
        "SELECT 'number ' || number || ' state ' || state FROM resolved
         WHERE state NOT BETWEEN 0 AND 8 OR length(entry) <> 16",
    ),
    (
        "a queue's counts are those of its messages",
        "SELECT 'queue ' || q.name || ': kept ' || q.ready || ' and ' || q.waiting FROM queues q
         WHERE q.ready <> (SELECT count(*) FROM messages WHERE queue = q.id AND due = 0)
            OR q.waiting <> (SELECT count(*) FROM messages WHERE queue = q.id AND due > 0)",
    ),
    (
        "a message lies in a queue that is there",
        "SELECT 'message ' || mid FROM messages WHERE queue NOT IN (SELECT id FROM queues)",
    ),
    (
        "a line of history belongs to an entry",
        "SELECT DISTINCT 'entry row ' || entry FROM history WHERE entry NOT IN (SELECT eid FROM entries)",
    ),
    (
        "an entry keeps its first and its last lines of history, and at most 32",
        "SELECT 'entry ' || lower(hex(e.id)) || ': ' || count(h.n) || ' lines' FROM entries e
         LEFT JOIN history h ON h.entry = e.eid GROUP BY e.eid
         HAVING count(h.n) <> min(e.lines, 32) OR (e.lines > 0 AND (min(h.n) <> 1 OR max(h.n) <> e.lines))",
    ),
    (
        "a lane's count is that of its held entries",
        "SELECT 'lane ' || lane || ' of ' || flow || ': kept ' || sum(kept) || ', counted ' || sum(real) FROM
         (SELECT flow, lane, count AS kept, 0 AS real FROM lanes
          UNION ALL SELECT flow, lane, 0, count(*) FROM entries WHERE lane IS NOT NULL AND state = 1 GROUP BY flow, lane)
         GROUP BY flow, lane HAVING sum(kept) <> sum(real)",
    ),
    (
        "a lane knows how many it let go that have not come to an end",
        "SELECT 'lane ' || lane || ' of ' || flow || ': kept ' || sum(kept) || ', counted ' || sum(real) FROM
         (SELECT flow, lane, released AS kept, 0 AS real FROM lanes
          UNION ALL SELECT flow, lane, 0, count(*) FROM entries
          WHERE lane IS NOT NULL AND state IN (0, 4) GROUP BY flow, lane)
         GROUP BY flow, lane HAVING sum(kept) <> sum(real)",
    ),
    (
        "a lane's head is an entry that has not come to an end, and of its flow unless it was asked for by name",
        "SELECT 'lane ' || l.lane || ' of ' || l.flow FROM lanes l LEFT JOIN entries e ON e.id = l.head
         WHERE l.head IS NOT NULL AND (e.eid IS NULL OR e.state NOT IN (0, 1, 2, 3, 4)
            OR (e.flow <> l.flow AND l.lane NOT GLOB 'after:*'))",
    ),
    (
        "a lane is there while it holds somebody, and only a quarantine does so by itself",
        "SELECT 'lane ' || lane || ' of ' || flow || ': ' || count || ' held' FROM lanes
         WHERE head IS NULL AND released = 0 AND (count = 0 OR lane NOT GLOB 'quarantine:*')
            OR lane GLOB 'quarantine:*' AND (head IS NOT NULL OR released <> 0)",
    ),
    (
        "a held entry has a lane, and nothing else has one that was neither let go nor put away while held",
        "SELECT 'entry ' || lower(hex(id)) || ' state ' || state FROM entries
         WHERE (lane IS NULL AND state = 1 AND (source_kind = 'embedded' OR keeper IS NOT NULL))
            OR (lane IS NOT NULL AND state NOT IN (0, 1, 4) AND NOT (state IN (6, 8) AND earlier IS 1))",
    ),
    (
        "the audit's numbers have no gap",
        "SELECT 'lines ' || count(*) || ', last number ' || max(number) FROM audit
         HAVING count(*) > 0 AND (min(number) <> 1 OR max(number) <> count(*))",
    ),
    (
        "a control in force has its line in the audit",
        "SELECT 'flow ' || flow || ': ' || kind || ' ' || target FROM controls
         WHERE (at, who, why) NOT IN (SELECT at, who, why FROM audit)",
    ),
    (
        "a replay's figures are those of its items",
        "SELECT 'replay ' || lower(hex(r.id)) FROM replays r WHERE r.state <> 'freezing' AND (
             r.total <> (SELECT count(*) FROM replay_items i WHERE i.replay = r.rid)
          OR r.sent <> (SELECT count(*) FROM replay_items i WHERE i.replay = r.rid AND i.outcome IN (1, 2, 3))
          OR r.recovered <> (SELECT count(*) FROM replay_items i WHERE i.replay = r.rid AND i.outcome = 2)
          OR r.failed <> (SELECT count(*) FROM replay_items i WHERE i.replay = r.rid AND i.outcome = 3)
          OR r.skipped <> (SELECT count(*) FROM replay_items i WHERE i.replay = r.rid AND i.outcome = 4))",
    ),
    (
        "a replay is done when everything is sent and every outcome known",
        "SELECT 'replay ' || lower(hex(id)) || ' ' || state FROM replays
         WHERE (state = 'running' AND sent + skipped = total AND recovered + failed = sent)
            OR (state = 'done' AND (sent + skipped <> total OR recovered + failed <> sent))",
    ),
    (
        "an entry whose replay is open stands in that replay as sent",
        "SELECT 'entry ' || lower(hex(e.id)) FROM entries e
         LEFT JOIN replay_items i ON i.replay = e.replay AND i.pos = e.replay_pos AND i.entry = e.id
         WHERE (e.replay IS NOT NULL AND i.outcome IS NOT 1) OR (e.state = 4 AND e.replay IS NULL)",
    ),
];

/// Everything that is not as it has to be, seen at one moment.
pub(crate) fn check(sql: &Connection) -> Done<Vec<Problem>> {
    let snapshot = sql.unchecked_transaction()?;
    let mut problems = Vec::new();
    for (invariant, query) in INVARIANTS {
        find(&snapshot, invariant, query, &mut problems)?;
    }
    let mut statement = snapshot.prepare("PRAGMA quick_check(20)")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let found: String = row.get(0)?;
        if found != "ok" {
            problems.push(Problem { invariant: "the file is sound".to_owned(), found });
        }
    }
    Ok(problems)
}

fn find(sql: &Connection, invariant: &str, query: &str, problems: &mut Vec<Problem>) -> Done<()> {
    let mut statement = sql.prepare(query)?;
    let mut rows = statement.query([])?;
    let mut named = 0;
    while let Some(row) = rows.next()? {
        if named == NAMED {
            let found = "and more".to_owned();
            problems.push(Problem { invariant: invariant.to_owned(), found });
            break;
        }
        named += 1;
        problems.push(Problem { invariant: invariant.to_owned(), found: row.get(0)? });
    }
    Ok(())
}
