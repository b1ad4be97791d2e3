//! Lanes: what is held behind what, and whose turn it is.
//!
//! A lane has a row while it is held: behind its head, behind those that were let go and have not come to an end, or by a
//! quarantine. The row changes in the transaction that changes the entries it is about, so no follower slips by and none
//! is left behind: whatever takes the last reason to wait away also lets the next ones go ([`Lane::go_on`]).
//!
//! Followers are let go in windows that grow while all goes well, so that a lane of 100,000 does not flood a handler that
//! has just recovered, and does not pay a transaction for each either. Whoever is held again because one of the window
//! failed stands in front of the rest, since the order is that of the messages' rows.

mod deeds;
mod let_go;
mod settled;
mod standing;

pub(crate) use deeds::{is_in_one, lane_to_rejoin, rejoin, skip, step_aside};
pub(crate) use let_go::release_quarantine;
pub(crate) use settled::{Admission, Settled, admit, ended};
pub(crate) use standing::{held_behind, standings};

use redrive_engine::port::{ControlKind, EntryId, EntryState, LaneName};
use rusqlite::{OptionalExtension, params};

use super::record::{Stored, entry_id};
use crate::fault::{Done, Fault};
use crate::tx::Tx;

/// The first window; also the next one after a failure.
const FIRST: i64 = 1;
/// How much larger the next window is.
const GROWTH: i64 = 4;
/// The largest window.
const LARGEST: i64 = 256;
/// Messages taken out of a lane that it remembers.
const SKIPPED: usize = 16;

/// The row of a lane.
#[derive(Debug)]
struct Lane {
    flow: String,
    name: LaneName,
    head: Option<EntryId>,
    /// Entries that are held in it.
    count: i64,
    /// Entries that were let go and have not come to an end.
    released: i64,
    /// How many are let go next.
    step: i64,
    /// Rows and ids of messages that a person took out, the last ones.
    skipped: Vec<(i64, String)>,
    stored: bool,
}

impl Lane {
    fn load(tx: &Tx<'_>, flow: &str, name: &LaneName) -> Done<Option<Self>> {
        type Columns = (Option<Vec<u8>>, i64, i64, i64, Option<String>);
        let found: Option<Columns> = tx
            .sql
            .prepare_cached(
                "SELECT head, count, released, step, skipped FROM lanes WHERE flow = ?1 AND lane = ?2",
            )?
            .query_row(params![flow, name.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
            })
            .optional()?;
        let Some((head, count, released, step, skipped)) = found else { return Ok(None) };
        Ok(Some(Self {
            flow: flow.to_owned(),
            name: name.clone(),
            head: head.map(|bytes| entry_id(&bytes)).transpose()?,
            count,
            released,
            step,
            skipped: read_skipped(skipped.as_deref())?,
            stored: true,
        }))
    }

    /// The lane as it is, or a new one: that nothing holds yet, unless it is behind the message that it is named after.
    fn of(tx: &Tx<'_>, flow: &str, name: &LaneName) -> Done<Self> {
        if let Some(known) = Self::load(tx, flow, name)? {
            return Ok(known);
        }
        Ok(Self {
            flow: flow.to_owned(),
            name: name.clone(),
            head: followed(tx, name)?,
            count: 0,
            released: 0,
            step: FIRST,
            skipped: Vec::new(),
            stored: false,
        })
    }

    /// Lets the next ones go when nobody is in front of them any more, and writes the lane down. A lane that nothing holds
    /// is gone.
    fn go_on(mut self, tx: &mut Tx<'_>) -> Done<()> {
        let free = self.head.is_none() && self.released == 0 && !self.name.is_quarantine();
        if free && self.count > 0 {
            let due = tx.now.as_millis().max(1);
            self.released = let_go::window(tx, &self, self.step, due)?;
            self.count -= self.released;
            self.step = (self.step * GROWTH).min(LARGEST);
        }
        self.save(tx)
    }

    fn save(self, tx: &mut Tx<'_>) -> Done<()> {
        let (flow, name) = (self.flow.as_str(), self.name.as_str());
        // Nobody arrives at a lane of followers by name but with its name: without any it is not needed.
        let has_head = self.head.is_some() && self.name.followed().is_none();
        let held = has_head || self.released > 0 || self.count > 0;
        if held {
            tx.sql
                .prepare_cached(
                    "INSERT INTO lanes (flow, lane, head, count, released, step, skipped)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
                     ON CONFLICT (flow, lane) DO UPDATE SET head = excluded.head, count = excluded.count,
                         released = excluded.released, step = excluded.step, skipped = excluded.skipped",
                )?
                .execute(params![
                    flow,
                    name,
                    self.head.as_ref().map(|head| &head.as_bytes()[..]),
                    self.count,
                    self.released,
                    self.step,
                    written_skipped(&self.skipped)?,
                ])?;
        } else {
            tx.sql
                .prepare_cached("DELETE FROM lanes WHERE flow = ?1 AND lane = ?2")?
                .execute(params![flow, name])?;
        }
        if held != self.stored && !self.name.is_quarantine() {
            tx.lanes_changed(flow, if held { 1 } else { -1 });
        }
        Ok(())
    }

    /// A person took this message out.
    fn note_skipped(&mut self, row: i64, mid: &str) {
        self.skipped.push((row, mid.to_owned()));
        let beyond = self.skipped.len().saturating_sub(SKIPPED);
        self.skipped.drain(..beyond);
    }
}

fn read_skipped(text: Option<&str>) -> Done<Vec<(i64, String)>> {
    let Some(text) = text else { return Ok(Vec::new()) };
    serde_json::from_str(text)
        .map_err(|error| Fault::broken(format!("what a lane skipped cannot be read: {error}")))
}

fn written_skipped(skipped: &[(i64, String)]) -> Done<Option<String>> {
    if skipped.is_empty() {
        return Ok(None);
    }
    serde_json::to_string(skipped).map(Some).map_err(|error| Fault::broken(error.to_string()))
}

impl Stored {
    /// The lane that let it go, while it has not come to an end.
    fn let_go_from(&self) -> Option<LaneName> {
        let open = matches!(self.state, EntryState::Waiting | EntryState::Replaying);
        self.lane.as_deref().filter(|_| open).map(LaneName::from_stored)
    }

    /// The lane that it is held in.
    fn held_in(&self) -> Option<LaneName> {
        let held = self.state == EntryState::Held;
        self.lane.as_deref().filter(|_| held).map(LaneName::from_stored)
    }
}

/// The entry has come to an end or was taken out: whatever it was the head of goes on.
fn end_heads(tx: &mut Tx<'_>, id: EntryId) -> Done<()> {
    for (flow, name) in headed_by(tx, id)? {
        if let Some(mut lane) = Lane::load(tx, &flow, &name)? {
            lane.head = None;
            lane.go_on(tx)?;
        }
    }
    Ok(())
}

/// The lanes that an entry is the head of.
fn headed_by(tx: &Tx<'_>, id: EntryId) -> Done<Vec<(String, LaneName)>> {
    let mut statement = tx.sql.prepare_cached("SELECT flow, lane FROM lanes WHERE head = ?1")?;
    let lanes = statement.query_map([&id.as_bytes()[..]], |row| {
        Ok((row.get(0)?, LaneName::from_stored(&row.get::<_, String>(1)?)))
    })?;
    Ok(lanes.collect::<rusqlite::Result<_>>()?)
}

/// The lane of its own flow that holds others behind an entry, those of followers by name aside.
pub(crate) fn own_of(tx: &Tx<'_>, stored: &Stored) -> Done<Option<LaneName>> {
    let lanes = headed_by(tx, stored.id)?.into_iter();
    let mut own = lanes.filter(|(flow, name)| *flow == stored.flow && name.followed().is_none());
    Ok(own.next().map(|(_, name)| name))
}

/// Takes an entry out of the lane that holds it or let it go; the lane goes on without it.
fn leave(tx: &mut Tx<'_>, stored: &Stored) -> Done<()> {
    let (held, let_go) = (stored.held_in(), stored.let_go_from());
    let Some(name) = held.as_ref().or(let_go.as_ref()) else { return Ok(()) };
    let mut lane = Lane::of(tx, &stored.flow, name)?;
    if held.is_some() {
        lane.count -= 1;
    } else {
        lane.released -= 1;
    }
    lane.go_on(tx)
}

/// The entry belongs to no lane's followers any more.
fn forget_lane(tx: &Tx<'_>, eid: i64) -> Done<()> {
    tx.sql.prepare_cached("UPDATE entries SET lane = NULL WHERE eid = ?1")?.execute([eid])?;
    Ok(())
}

/// The entry that a lane is named after, while it has not come to an end.
fn followed(tx: &Tx<'_>, name: &LaneName) -> Done<Option<EntryId>> {
    use EntryState::{Dead, Held, Parked, Replaying, Waiting};
    let Some(id) = name.followed() else { return Ok(None) };
    let stored = Stored::by_id(tx, id)?;
    let open = |stored: &Stored| matches!(stored.state, Waiting | Held | Dead | Parked | Replaying);
    Ok(stored.filter(open).map(|stored| stored.id))
}

/// Whether a quarantine is in force. What is kept in one that is not would be kept for ever.
fn is_in_force(tx: &Tx<'_>, flow: &str, lane: &LaneName) -> Done<bool> {
    let target = lane.as_str().strip_prefix(LaneName::of_quarantine("").as_str()).unwrap_or_default();
    let known = tx
        .sql
        .prepare_cached("SELECT 1 FROM controls WHERE flow = ?1 AND kind = ?2 AND target = ?3")?
        .exists(params![flow, ControlKind::Quarantine.as_str(), target])?;
    Ok(known)
}
