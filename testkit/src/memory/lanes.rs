//! Lanes: what is held behind what, and whose turn it is.
//!
//! A lane is there while it holds somebody: behind its head, behind those that were let go and have not come to an end,
//! or in a quarantine.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::Timestamp;
use redrive_engine::port::{
    Asked, ControlKind, Entry, EntryId, EntryState, HistoryLine, LaneName, Record, Standing,
};

use super::entries::Kept;
use super::queue::Place;
use super::state::State;

/// The largest window in which followers are let go.
const LARGEST: usize = 256;
/// Messages taken out of a lane that it remembers.
const SKIPPED: usize = 16;
/// How many steps from one message to the one it waits for are looked at.
const CHAIN: usize = 64;

#[derive(Debug)]
pub(super) struct Lane {
    head: Option<EntryId>,
    /// By the message's row.
    held: BTreeMap<u64, EntryId>,
    let_go: BTreeSet<EntryId>,
    /// How many are let go next.
    step: usize,
    /// Rows and ids of what a person took out.
    skipped: Vec<(u64, String)>,
}

impl Default for Lane {
    fn default() -> Self {
        let (held, let_go) = (BTreeMap::new(), BTreeSet::new());
        Self { head: None, held, let_go, step: 1, skipped: Vec::new() }
    }
}

/// A lane's flow and its name.
type Key = (String, LaneName);

/// What becomes of a message that is to be kept in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    Keep,
    /// It is the lane's head itself.
    GiveBack,
    /// Its quarantine has ended: it comes again, after a moment in which the flow learns of that.
    Later,
    /// The one that it would wait for waits for it.
    Circle,
}

fn is_unfinished(state: EntryState) -> bool {
    use EntryState::{Dead, Held, Parked, Replaying, Waiting};
    matches!(state, Waiting | Held | Dead | Parked | Replaying)
}

impl Kept {
    fn row(&self) -> u64 {
        self.row.as_ref().map_or(0, |(_, number)| *number)
    }

    fn place_in_lane(&self) -> Option<(Key, bool)> {
        let held = self.entry.state == EntryState::Held;
        let open = held || matches!(self.entry.state, EntryState::Waiting | EntryState::Replaying);
        self.lane.clone().filter(|_| open).map(|lane| ((self.entry.flow.clone(), lane), held))
    }
}

impl State {
    /// How a message stands.
    pub(super) fn standing(&self, flow: &str, asked: &Asked) -> Standing {
        if let Some(known) = asked.read_at.as_ref().and_then(|read_at| self.standing_at(read_at)) {
            return known;
        }
        let Some(lane) = self.lanes.get(&(flow.to_owned(), asked.lane.clone())) else {
            return Standing::Open;
        };
        let head = lane.head.and_then(|head| self.entries.get(&head));
        let behind = Standing::Behind { head: head.map(|kept| kept.entry.message.id.clone()) };
        let Some(kept) = asked.entry.and_then(|entry| self.entries.get(&entry)) else { return behind };
        let first_held = lane.held.keys().next().copied().unwrap_or(u64::MAX);
        let turn = match lane.head {
            Some(head) => head == kept.entry.id,
            None => lane.let_go.contains(&kept.entry.id) && kept.row() < first_held,
        };
        if !turn {
            return behind;
        }
        let before = lane.skipped.iter().filter(|(row, _)| *row < kept.row());
        Standing::Turn { skipped: before.map(|(_, id)| id.clone()).collect(), entry: None }
    }

    /// Lanes that are held, quarantines aside.
    pub(super) fn held_lanes(&self, flow: &str) -> u64 {
        let lanes = self.lanes.keys().filter(|(of, name)| of == flow && !name.is_quarantine());
        lanes.count() as u64
    }

    /// How many messages a lane keeps.
    pub(super) fn kept_in(&self, flow: &str, lane: &LaneName) -> u64 {
        let lane = self.lanes.get(&(flow.to_owned(), lane.clone()));
        lane.map_or(0, |lane| lane.held.len() as u64)
    }

    /// How many are held behind an entry.
    pub(super) fn followers(&self, id: EntryId) -> u64 {
        let lanes = self.lanes.values().filter(|lane| lane.head == Some(id));
        lanes.map(|lane| lane.held.len() as u64).sum()
    }

    /// An entry as it is shown.
    pub(super) fn shown(&self, kept: &Kept) -> Entry {
        let mut entry = kept.entry.clone();
        entry.followers = self.followers(entry.id);
        entry.held_behind = match &kept.lane {
            _ if entry.state != EntryState::Held => None,
            Some(lane) if lane.is_quarantine() => {
                let text = lane.as_str().strip_prefix(LaneName::of_quarantine("").as_str());
                text.map(str::to_owned)
            }
            Some(lane) => {
                let lane = self.lanes.get(&(entry.flow.clone(), lane.clone()));
                let head = lane.and_then(|lane| self.entries.get(&lane.head?));
                head.map(|head| head.entry.message.id.clone()).or(entry.held_behind)
            }
            None => entry.held_behind,
        };
        entry
    }

    /// Whether the message of an entry can be kept in a lane. `own` is the message's own lane.
    pub(super) fn admit(&self, record: &Record, own: Option<&LaneName>, name: &LaneName) -> Admission {
        if name.is_quarantine() {
            let in_force = self.is_in_force(&record.flow, name);
            return if in_force { Admission::Keep } else { Admission::Later };
        }
        let lane = self.lanes.get(&(record.flow.to_string(), name.clone()));
        let head = lane.map_or(self.followed(name), |lane| lane.head);
        if head == Some(record.entry) && name.followed() != head {
            return Admission::GiveBack;
        }
        // It is about to be the head of its own lane, unless that has one.
        let own = own.filter(|own| *own != name);
        let mut next = head;
        for _ in 0..CHAIN {
            let Some(id) = next else { break };
            if id == record.entry {
                return Admission::Circle;
            }
            let Some((key, true)) = self.entries.get(&id).and_then(Kept::place_in_lane) else { break };
            next = self.lanes.get(&key).and_then(|lane| lane.head);
            if next.is_none() && key.0 == *record.flow && own == Some(&key.1) {
                return Admission::Circle;
            }
        }
        Admission::Keep
    }

    /// An entry is held in a lane. It has left its earlier place already.
    pub(super) fn keep_in_lane(
        &mut self,
        id: EntryId,
        name: &LaneName,
        own: Option<&LaneName>,
        now: Timestamp,
    ) {
        if let Some(own) = own.filter(|own| *own != name) {
            self.become_head(id, own);
        }
        let followed = name
            .followed()
            .filter(|id| self.entries.get(id).is_some_and(|followed| is_unfinished(followed.entry.state)));
        let Some(kept) = self.entries.get_mut(&id) else { return };
        kept.lane = Some(name.clone());
        let (row, key) = (kept.row(), (kept.entry.flow.clone(), name.clone()));
        let lane =
            self.lanes.entry(key.clone()).or_insert_with(|| Lane { head: followed, ..Lane::default() });
        lane.held.insert(row, id);
        self.go_on(&key, now);
    }

    /// Holds a lane behind an entry, unless it is held behind another; says whether it is.
    pub(super) fn become_head(&mut self, id: EntryId, own: &LaneName) -> bool {
        let Some(kept) = self.entries.get(&id) else { return false };
        let lane = self.lanes.entry((kept.entry.flow.clone(), own.clone())).or_default();
        if lane.head.is_none() {
            lane.head = Some(id);
            lane.step = 1;
        }
        lane.head == Some(id)
    }

    /// Takes an entry out of the lane that holds it or let it go, before its state changes. Answers with that lane, which
    /// has to go on.
    pub(super) fn take_out(&mut self, id: EntryId) -> Option<Key> {
        let ((flow, name), _) = self.entries.get(&id)?.place_in_lane()?;
        let key = (flow, name);
        let row = self.entries.get(&id)?.row();
        if let Some(lane) = self.lanes.get_mut(&key) {
            lane.held.remove(&row);
            lane.let_go.remove(&id);
        }
        self.entries.get_mut(&id)?.lane = None;
        Some(key)
    }

    /// Puts an entry back among those that its lane let go.
    pub(super) fn put_back(&mut self, id: EntryId, key: &Key) {
        self.lanes.entry(key.clone()).or_default().let_go.insert(id);
        if let Some(kept) = self.entries.get_mut(&id) {
            kept.lane = Some(key.1.clone());
        }
    }

    /// An entry has come to an end: whatever it was the head of goes on.
    pub(super) fn end_heads(&mut self, id: EntryId, now: Timestamp) {
        for key in self.headed_by(id) {
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.head = None;
            }
            self.go_on(&key, now);
        }
    }

    fn headed_by(&self, id: EntryId) -> Vec<Key> {
        let lanes = self.lanes.iter().filter(|(_, lane)| lane.head == Some(id));
        lanes.map(|(key, _)| key.clone()).collect()
    }

    /// The lane of its own flow that holds others behind an entry, those of followers by name aside.
    pub(super) fn own_lane_of(&self, id: EntryId) -> Option<LaneName> {
        let keys = self.headed_by(id).into_iter();
        keys.map(|(_, name)| name).find(|name| name.followed().is_none())
    }

    /// Whether an entry stands in a lane in any way.
    pub(super) fn is_in_a_lane(&self, id: EntryId) -> bool {
        self.entries.get(&id).and_then(Kept::place_in_lane).is_some() || !self.headed_by(id).is_empty()
    }

    /// A person takes an entry out of its lanes: they remember it.
    pub(super) fn note_skipped(&mut self, id: EntryId) {
        let Some(kept) = self.entries.get(&id) else { return };
        let (row, message) = (kept.row(), kept.entry.message.id.clone());
        let mut keys = self.headed_by(id);
        keys.extend(kept.place_in_lane().map(|(key, _)| key));
        for key in keys {
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.skipped.push((row, message.clone()));
                let beyond = lane.skipped.len().saturating_sub(SKIPPED);
                lane.skipped.drain(..beyond);
            }
        }
    }

    /// Whether a lane still holds, so that one that was restored goes back into it.
    pub(super) fn holds(&self, flow: &str, lane: &LaneName) -> bool {
        self.lanes.contains_key(&(flow.to_owned(), lane.clone()))
            || self.is_in_force(flow, lane)
            || self.followed(lane).is_some()
    }

    /// The entry that a lane is named after, while it has not come to an end.
    fn followed(&self, name: &LaneName) -> Option<EntryId> {
        name.followed().filter(|id| self.entries.get(id).is_some_and(|kept| is_unfinished(kept.entry.state)))
    }

    /// Whether a lane is that of a quarantine in force. What is kept in one that is not would be kept for ever.
    fn is_in_force(&self, flow: &str, lane: &LaneName) -> bool {
        let quarantines = self.controls.iter().filter(|control| control.kind == ControlKind::Quarantine);
        let mut lanes = quarantines.filter(|control| control.flow == flow).map(|control| &control.target);
        lane.is_quarantine() && lanes.any(|target| LaneName::of_quarantine(target) == *lane)
    }

    /// Lets the next ones go when nobody is in front of them any more. A lane that nothing holds is gone.
    pub(super) fn go_on(&mut self, key: &Key, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(key) else { return };
        if lane.head.is_none() && lane.let_go.is_empty() && !key.1.is_quarantine() {
            let mut next = Vec::new();
            while next.len() < lane.step
                && let Some((_, id)) = lane.held.pop_first()
            {
                next.push(id);
            }
            lane.step = (lane.step * 4).min(LARGEST);
            lane.let_go.extend(&next);
            for id in next {
                self.release(id, Place::Due(now), "the messages in front of it have come to an end", now);
            }
        }
        let Some(lane) = self.lanes.get(key) else { return };
        // Nobody arrives at a lane of followers by name but with its name: without any it is not needed.
        let has_head = lane.head.is_some() && key.1.followed().is_none();
        if !has_head && lane.let_go.is_empty() && lane.held.is_empty() {
            self.lanes.remove(key);
        }
    }

    /// Lets everything go that a quarantine keeps, back to where it stood; answers with how many that were.
    pub(super) fn release_quarantine(&mut self, flow: &str, lane: &LaneName, now: Timestamp) -> u64 {
        let Some(lane) = self.lanes.remove(&(flow.to_owned(), lane.clone())) else { return 0 };
        for id in lane.held.values() {
            self.release(*id, Place::Ready, "its quarantine has ended", now);
            if let Some(kept) = self.entries.get_mut(id) {
                kept.lane = None;
            }
        }
        lane.held.len() as u64
    }

    fn release(&mut self, id: EntryId, place: Place, because: &str, now: Timestamp) {
        self.change_free(id, |row| row.place = place);
        let Some(kept) = self.entries.get_mut(&id) else { return };
        kept.entry.state = EntryState::Waiting;
        kept.entry.due_at = Some(now);
        because.clone_into(&mut kept.entry.because);
        kept.changed = now;
        let mut told = HistoryLine::new(now, "released");
        told.because = Some(because.to_owned());
        kept.tell(told);
    }

    /// What cannot be right about lanes.
    pub(super) fn check_lanes(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        for ((flow, name), lane) in &self.lanes {
            let found = format!("lane {name} of {flow}: {lane:?}");
            let head = lane.head.map(|head| self.entries.get(&head));
            if head.is_some_and(|head| head.is_none_or(|head| !is_unfinished(head.entry.state))) {
                problems.push(("a lane's head is an entry that has not come to an end", found.clone()));
            }
            let idle = lane.head.is_none() && lane.let_go.is_empty();
            if idle && (lane.held.is_empty() || !name.is_quarantine()) {
                problems.push(("a lane is there while it holds somebody", found.clone()));
            }
            let stands = |id: &EntryId, held: bool| {
                let place = self.entries.get(id).and_then(Kept::place_in_lane);
                place.is_some_and(|(key, is_held)| key == (flow.clone(), name.clone()) && is_held == held)
            };
            if !lane.held.values().all(|id| stands(id, true))
                || !lane.let_go.iter().all(|id| stands(id, false))
            {
                problems.push(("a lane's entries know that they are in it", found));
            }
        }
        for kept in self.entries.values() {
            let id = kept.entry.id;
            let Some((key, held)) = kept.place_in_lane() else {
                if kept.entry.state == EntryState::Held {
                    problems.push(("a held entry has a lane", id.to_string()));
                }
                continue;
            };
            let lane = self.lanes.get(&key);
            let known = lane.is_some_and(|lane| {
                if held { lane.held.get(&kept.row()) == Some(&id) } else { lane.let_go.contains(&id) }
            });
            if !known {
                problems.push(("an entry's lane knows that it is in it", id.to_string()));
            }
        }
        problems
    }
}
