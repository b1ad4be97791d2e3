//! What people's deeds mean for lanes. Each is told the entry as it was before.

use redrive_engine::port::{EntryState, LaneName};

use super::{Lane, end_heads, forget_lane, headed_by, is_in_force, leave};
use crate::fault::Done;
use crate::ledger::record::Stored;
use crate::tx::Tx;

/// Whether the entry stands in a lane: as its head, as a follower, or let go.
pub(crate) fn is_in_one(tx: &Tx<'_>, stored: &Stored) -> Done<bool> {
    Ok(stored.held_in().is_some() || stored.let_go_from().is_some() || !headed_by(tx, stored.id)?.is_empty())
}

/// A person put it aside: a follower leaves its lane, a head stays what it is.
pub(crate) fn step_aside(tx: &mut Tx<'_>, before: &Stored) -> Done<()> {
    forget_lane(tx, before.eid)?;
    leave(tx, before)
}

/// A person took it out of its lane, which goes on without it and can tell the next ones.
pub(crate) fn skip(tx: &mut Tx<'_>, before: &Stored) -> Done<()> {
    let mut lanes = headed_by(tx, before.id)?;
    lanes.extend(before.held_in().or_else(|| before.let_go_from()).map(|lane| (before.flow.clone(), lane)));
    for (flow, name) in lanes {
        if let Some(mut lane) = Lane::load(tx, &flow, &name)? {
            lane.note_skipped(before.message.unwrap_or(0), &before.mid);
            lane.save(tx)?;
        }
    }
    forget_lane(tx, before.eid)?;
    leave(tx, before)?;
    end_heads(tx, before.id)
}

/// The lane that an entry goes back to when it is restored: the one that it was held in, when that still holds.
pub(crate) fn lane_to_rejoin(tx: &Tx<'_>, stored: &Stored) -> Done<Option<LaneName>> {
    let remembered = stored.lane.as_deref().filter(|_| stored.earlier == Some(EntryState::Held));
    let Some(name) = remembered.map(LaneName::from_stored) else { return Ok(None) };
    let lane = Lane::of(tx, &stored.flow, &name)?;
    let holds =
        lane.stored || lane.head.is_some() || (name.is_quarantine() && is_in_force(tx, &stored.flow, &name)?);
    Ok(holds.then_some(name))
}

/// It was restored: back into this lane, or into none.
pub(crate) fn rejoin(tx: &mut Tx<'_>, before: &Stored, name: Option<&LaneName>) -> Done<()> {
    let Some(name) = name else { return forget_lane(tx, before.eid) };
    let mut lane = Lane::of(tx, &before.flow, name)?;
    lane.count += 1;
    lane.go_on(tx)
}
