//! What the end of a delivery means for lanes.

use redrive_engine::port::{EntryId, EntryState, LaneName};

use super::{FIRST, Lane, end_heads, forget_lane, is_in_force, leave};
use crate::fault::Done;
use crate::ledger::record::Stored;
use crate::tx::Tx;

/// How many steps from one message to the one it waits for are looked at.
const CHAIN: usize = 64;

/// What becomes of a message that is to be kept in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is kept. A lane that nothing holds lets it go at once, with those behind it kept behind it.
    Keep,
    /// It is given back as it was: it is the lane's head itself.
    GiveBack,
    /// Its quarantine has ended: it comes again, after a moment in which the flow learns of that.
    Later,
    /// The one that it would wait for waits for it: a person is needed.
    Circle,
}

/// Whether the message of an entry can be kept in a lane. `own` is the message's own lane. Changes nothing.
pub(crate) fn admit(
    tx: &Tx<'_>,
    flow: &str,
    entry: EntryId,
    own: Option<&LaneName>,
    name: &LaneName,
) -> Done<Admission> {
    if name.is_quarantine() {
        let in_force = is_in_force(tx, flow, name)?;
        return Ok(if in_force { Admission::Keep } else { Admission::Later });
    }
    let head = Lane::of(tx, flow, name)?.head;
    if head == Some(entry) && name.followed() != head {
        return Ok(Admission::GiveBack);
    }
    let own = own.filter(|own| *own != name).map(|own| (flow, own));
    Ok(if waits_for(tx, head, entry, own)? { Admission::Circle } else { Admission::Keep })
}

/// Whether `first` is `entry`, or is held behind one that is, however far. `entry` is about to be the head of its own lane,
/// unless that has one.
fn waits_for(
    tx: &Tx<'_>,
    first: Option<EntryId>,
    entry: EntryId,
    own: Option<(&str, &LaneName)>,
) -> Done<bool> {
    let mut next = first;
    for _ in 0..CHAIN {
        let Some(id) = next else { return Ok(false) };
        if id == entry {
            return Ok(true);
        }
        let Some(stored) = Stored::by_id(tx, id)? else { return Ok(false) };
        let Some(lane) = stored.held_in().filter(|lane| !lane.is_quarantine()) else { return Ok(false) };
        next = Lane::load(tx, &stored.flow, &lane)?.and_then(|lane| lane.head);
        if next.is_none() && own == Some((&stored.flow, &lane)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a settlement did to an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settled<'s> {
    pub(crate) flow: &'s str,
    pub(crate) entry: EntryId,
    /// Where it stands now.
    pub(crate) state: EntryState,
    /// As it was, when it is not new.
    pub(crate) before: Option<&'s Stored>,
    /// The message's own lane, in a flow that keeps order.
    pub(crate) own: Option<&'s LaneName>,
}

impl Settled<'_> {
    /// Its entry is held in this lane.
    pub(crate) fn kept(self, tx: &mut Tx<'_>, name: &LaneName) -> Done<()> {
        let from = self.let_go_from();
        let own = self.own.filter(|own| *own != name);
        let is_head = match own {
            Some(own) => self.become_head(tx, own)?,
            None => false,
        };
        if let Some(before) = self.before
            && from.as_ref().is_some_and(|from| from != name && !(is_head && Some(from) == own))
        {
            leave(tx, before)?;
        }
        let mut lane = Lane::of(tx, self.flow, name)?;
        lane.count += 1;
        if from.as_ref() == Some(name) {
            lane.released -= 1;
        }
        lane.go_on(tx)
    }

    /// It failed, and its entry waits or needs a person.
    pub(crate) fn diverted(self, tx: &mut Tx<'_>) -> Done<()> {
        let is_head = match self.own {
            Some(own) => self.become_head(tx, own)?,
            None => false,
        };
        let (Some(before), Some(from)) = (self.before, self.let_go_from()) else { return Ok(()) };
        let its_own = Some(&from) == self.own;
        // Another one may have become the head meanwhile. One that is tried again is still in front of the followers; for
        // one that is not, a person is needed, and the lane does not wait for two.
        let tried_again = matches!(self.state, EntryState::Waiting | EntryState::Replaying);
        if its_own && !is_head && tried_again {
            return Ok(());
        }
        forget_lane(tx, before.eid)?;
        if its_own && is_head {
            return Ok(());
        }
        leave(tx, before)
    }

    fn let_go_from(&self) -> Option<LaneName> {
        self.before.and_then(Stored::let_go_from)
    }

    /// Holds its own lane behind it, unless that is held behind another; says whether it is.
    fn become_head(&self, tx: &mut Tx<'_>, own: &LaneName) -> Done<bool> {
        let mut lane = Lane::of(tx, self.flow, own)?;
        if let Some(head) = lane.head {
            return Ok(head == self.entry);
        }
        lane.head = Some(self.entry);
        lane.step = FIRST;
        if self.let_go_from().as_ref() == Some(own) {
            lane.released -= 1;
        }
        lane.save(tx)?;
        Ok(true)
    }
}

/// An entry has come to an end, by its delivery or by a person. One that was held remembers its lane, in case it is
/// restored.
pub(crate) fn ended(tx: &mut Tx<'_>, before: &Stored) -> Done<()> {
    if before.let_go_from().is_some() {
        forget_lane(tx, before.eid)?;
    }
    leave(tx, before)?;
    end_heads(tx, before.id)
}
