//! Messages of a broker that this ledger stands apart from.
//!
//! Each has a row in the queue beside its broker ([`home_of`](redrive_engine::port::home_of)), which keeps its body, unless
//! that is left to the broker, and, by its number, its place among those of its lane. So entries, lanes, deeds and replays work on it as on any other. What is
//! more is who hands it out next. While the broker does, the row is not deliverable. From the moment on that this file does
//! (it is held here, it waits here, a person or a replay sends it), the broker's copy is spent.

pub(crate) mod bodies;
mod brokers;
mod copies;
mod outbox;
pub(crate) mod place;
mod positions;
mod record;

pub(crate) use bodies::Body;
pub(crate) use brokers::Brokers;
pub(crate) use copies::{expected, overdue, passed};
pub(crate) use outbox::{resolve, resolved};
pub(crate) use positions::{keep_position, position};
pub(crate) use record::record;

use redrive_core::Timestamp;
use redrive_engine::port::{EntryState, Keeper};
use rusqlite::params;

use super::record::Stored;
use crate::fault::Done;
use crate::settle::Item;
use crate::tx::Tx;

/// A keeper as it is stored.
pub(crate) const fn number_of(keeper: Keeper) -> i64 {
    match keeper {
        Keeper::Ledger => 0,
        Keeper::Broker => 1,
    }
}

pub(crate) const fn keeper_of(number: i64) -> Keeper {
    if number == 0 { Keeper::Ledger } else { Keeper::Broker }
}

/// A person did something to an entry, or a replay of theirs: what is known at the broker about it is spent.
pub(crate) fn taken_over(tx: &Tx<'_>, stored: &Stored, now: Timestamp) -> Done<()> {
    if stored.keeper.is_none() {
        return Ok(());
    }
    tx.sql.prepare_cached("UPDATE entries SET keeper = ?2, person = ?3 WHERE eid = ?1")?.execute(params![
        stored.eid,
        number_of(Keeper::Ledger),
        now.as_millis()
    ])?;
    Ok(())
}

/// A message was settled that was handed out by the queue beside its broker.
pub(crate) fn settled_at_home(tx: &mut Tx<'_>, item: &Item, before: Option<&Stored>) -> Done<()> {
    if !tx.meta(item.tag.stream)?.home {
        return Ok(());
    }
    let told = item.record.as_ref().map(|told| &told.record);
    let state = told.map_or(EntryState::Recovered, |record| record.state);
    match (state, told, before) {
        // Their copy was written to the broker's own shelf before.
        (EntryState::Dead | EntryState::Parked, Some(record), _) => {
            tx.sql
                .prepare_cached("UPDATE entries SET shelved = 1 WHERE id = ?1 AND shelved = 0")?
                .execute([&record.entry.as_bytes()[..]])?;
            Ok(())
        }
        (state, _, Some(before)) if !state.is_unresolved() => resolve(tx, before, state),
        _ => Ok(()),
    }
}
