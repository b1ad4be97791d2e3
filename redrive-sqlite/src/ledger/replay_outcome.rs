//! What a replay learns when an entry that it sent comes to an end.

use redrive_core::Timestamp;
use redrive_engine::port::{EntryState, ReplayOutcome};
use rusqlite::params;

use super::record::Stored;
use crate::fault::{Done, Fault};
use crate::tx::Tx;

/// The outcomes as they are stored: their place here.
pub(crate) const OUTCOMES: [ReplayOutcome; 5] = [
    ReplayOutcome::Pending,
    ReplayOutcome::Sent,
    ReplayOutcome::Recovered,
    ReplayOutcome::Failed,
    ReplayOutcome::Skipped,
];

pub(crate) fn number(outcome: ReplayOutcome) -> i64 {
    (0..).zip(OUTCOMES).find(|(_, known)| *known == outcome).map_or(0, |(number, _)| number)
}

pub(crate) fn of(number: i64) -> Done<ReplayOutcome> {
    usize::try_from(number)
        .ok()
        .and_then(|place| OUTCOMES.get(place).copied())
        .ok_or_else(|| Fault::broken(format!("a replay has an outcome that is none: {number}")))
}

/// Tells the replay that sent this entry how it ended, if it did.
pub(crate) fn learn(tx: &Tx<'_>, before: &Stored, now_in: EntryState, at: Timestamp) -> Done<()> {
    let Some((replay, place)) = before.replay else { return Ok(()) };
    let (outcome, column) = match now_in {
        EntryState::Waiting | EntryState::Replaying | EntryState::Held => return Ok(()),
        EntryState::Recovered => (ReplayOutcome::Recovered, "recovered"),
        _ => (ReplayOutcome::Failed, "failed"),
    };
    tx.sql
        .prepare_cached("UPDATE replay_items SET outcome = ?3 WHERE replay = ?1 AND pos = ?2")?
        .execute(params![replay, place, number(outcome)])?;
    tx.sql
        .prepare_cached(&format!("UPDATE replays SET {column} = {column} + 1 WHERE rid = ?1"))?
        .execute([replay])?;
    tx.sql
        .prepare_cached("UPDATE entries SET replay = NULL, replay_pos = NULL WHERE eid = ?1")?
        .execute([before.eid])?;
    finish_if_done(tx, replay, at)
}

/// A running replay is done when everything is sent or skipped and every outcome is known.
pub(crate) fn finish_if_done(tx: &Tx<'_>, replay: i64, at: Timestamp) -> Done<()> {
    tx.sql
        .prepare_cached(
            "UPDATE replays SET state = 'done', ended = ?2
             WHERE rid = ?1 AND state = 'running' AND sent + skipped = total AND recovered + failed = sent",
        )?
        .execute(params![replay, at.as_millis()])?;
    Ok(())
}
