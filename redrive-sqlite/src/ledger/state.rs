//! States as numbers: their place in [`EntryState::ALL`], which the view of the schema spells out.

use redrive_engine::port::EntryState;

use crate::fault::{Done, Fault};

pub(crate) fn number(state: EntryState) -> i64 {
    (0..).zip(EntryState::ALL).find(|(_, known)| **known == state).map_or(0, |(number, _)| number)
}

/// The same, to count with.
pub(crate) fn place(state: EntryState) -> usize {
    EntryState::ALL.iter().position(|known| *known == state).unwrap_or(0)
}

pub(crate) fn of(number: i64) -> Done<EntryState> {
    usize::try_from(number)
        .ok()
        .and_then(|place| EntryState::ALL.get(place).copied())
        .ok_or_else(|| Fault::broken(format!("an entry stands in a state that is none: {number}")))
}

/// States in which somebody or something still has to act.
pub(crate) const UNRESOLVED: [EntryState; 5] =
    [EntryState::Waiting, EntryState::Held, EntryState::Dead, EntryState::Parked, EntryState::Replaying];
