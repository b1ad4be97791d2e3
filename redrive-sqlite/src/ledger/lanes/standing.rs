//! How messages stand in their lanes, for those who ask.

use redrive_engine::port::{Asked, EntryId, LaneName, Standing};
use rusqlite::{Connection, OptionalExtension, params};

use super::read_skipped;
use crate::fault::Done;
use crate::ledger::apart::place::{self, Before};
use crate::ledger::record::entry_id;

/// How each of these messages of a flow stands, seen at one moment.
pub(crate) fn standings(sql: &Connection, flow: &str, asked: &[Asked]) -> Done<Vec<Standing>> {
    let snapshot = sql.unchecked_transaction()?;
    asked.iter().map(|asked| standing(&snapshot, flow, asked)).collect()
}

fn standing(sql: &Connection, flow: &str, asked: &Asked) -> Done<Standing> {
    let before = match &asked.read_at {
        Some(read_at) => place::before(sql, flow, read_at)?,
        None => None,
    };
    match before {
        None => in_lane(sql, flow, &asked.lane, asked.entry),
        Some(Before::Known) => Ok(Standing::Known),
        // Whatever its lane says: it goes on where it was when the broker did not learn of it.
        Some(Before::Again(entry)) => {
            let skipped = match in_lane(sql, flow, &asked.lane, Some(entry))? {
                Standing::Turn { skipped, .. } => skipped,
                _ => Vec::new(),
            };
            Ok(Standing::Turn { skipped, entry: Some(entry) })
        }
    }
}

fn in_lane(sql: &Connection, flow: &str, name: &LaneName, asked: Option<EntryId>) -> Done<Standing> {
    type Columns = (Option<Vec<u8>>, Option<String>, Option<String>);
    let lane: Option<Columns> = sql
        .prepare_cached(
            "SELECT l.head, l.skipped, (SELECT e.mid FROM entries e WHERE e.id = l.head)
             FROM lanes l WHERE l.flow = ?1 AND l.lane = ?2",
        )?
        .query_row(params![flow, name.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((head, skipped, mid)) = lane else { return Ok(Standing::Open) };
    let head = head.map(|bytes| entry_id(&bytes)).transpose()?;
    let behind = Ok(Standing::Behind { head: mid });
    let Some(entry) = asked else { return behind };
    let message = match head {
        Some(head) if head == entry => message_of(sql, entry)?,
        Some(_) => return behind,
        None => match let_go(sql, flow, name, entry)? {
            Some(message) => Some(message),
            None => return behind,
        },
    };
    let before = read_skipped(skipped.as_deref())?.into_iter();
    let before = before.filter(|(row, _)| message.is_none_or(|message| *row < message));
    Ok(Standing::Turn { skipped: before.map(|(_, mid)| mid).collect(), entry: None })
}

fn message_of(sql: &Connection, entry: EntryId) -> Done<Option<i64>> {
    let found = sql
        .prepare_cached("SELECT message FROM entries WHERE id = ?1")?
        .query_row([&entry.as_bytes()[..]], |row| row.get(0))
        .optional()?;
    Ok(found.flatten())
}

/// The message of an entry that was let go, when it is its turn: one in front of it that is held again goes first.
fn let_go(sql: &Connection, flow: &str, lane: &LaneName, entry: EntryId) -> Done<Option<i64>> {
    let found: Option<i64> = sql
        .prepare_cached(
            "SELECT message FROM entries
             WHERE id = ?1 AND flow = ?2 AND lane = ?3 AND state IN (0, 4) AND message IS NOT NULL",
        )?
        .query_row(params![&entry.as_bytes()[..], flow, lane.as_str()], |row| row.get(0))
        .optional()?;
    let Some(message) = found else { return Ok(None) };
    let overtaken = sql
        .prepare_cached(
            "SELECT 1 FROM entries INDEXED BY entries_followers
             WHERE flow = ?1 AND lane = ?2 AND state = 1 AND message < ?3",
        )?
        .exists(params![flow, lane.as_str(), message])?;
    Ok((!overtaken).then_some(message))
}

/// What a held entry is behind: the message at the head of its lane, or the quarantine that keeps it. `known` is what was
/// said when it was held.
pub(crate) fn held_behind(
    sql: &Connection,
    flow: &str,
    lane: Option<&str>,
    known: Option<String>,
) -> Done<Option<String>> {
    let Some(lane) = lane else { return Ok(known) };
    if let Some(quarantine) = lane.strip_prefix(LaneName::of_quarantine("").as_str()) {
        return Ok(Some(quarantine.to_owned()));
    }
    let head: Option<String> = sql
        .prepare_cached(
            "SELECT e.mid FROM lanes l JOIN entries e ON e.id = l.head WHERE l.flow = ?1 AND l.lane = ?2",
        )?
        .query_row(params![flow, lane], |row| row.get(0))
        .optional()?;
    Ok(head.or(known))
}
