//! Replays.

use std::collections::BTreeMap;

use redrive_core::headers;
use redrive_core::{Text, Timestamp};
use redrive_engine::port::{
    Actor, EntryId, EntryState, HistoryLine, NewReplay, Refusal, Replay, ReplayItem, ReplayOutcome,
    ReplayPlan, ReplayState, ReplayStep,
};

use super::queue::Place;
use super::search::fits;
use super::state::State;

/// Entries that a plan shows.
const SAMPLE: usize = 10;

fn can_be_sent(state: EntryState) -> bool {
    matches!(state, EntryState::Dead | EntryState::Parked)
}

impl State {
    /// What is meant, oldest failure first, and what of it cannot be sent.
    fn selected(&self, replay: &NewReplay) -> (Vec<EntryId>, BTreeMap<String, u64>) {
        let mut meant: Vec<_> = if replay.ids.is_empty() {
            self.entries.values().filter(|kept| fits(&replay.filter, kept)).collect()
        } else {
            let ids = replay.ids.iter().filter_map(|id| self.find(id));
            ids.filter_map(|id| self.entries.get(&id)).collect()
        };
        meant.sort_by_key(|kept| (kept.entry.last_failed_at, kept.entry.id));
        let mut left_out: BTreeMap<String, u64> = BTreeMap::new();
        let mut sendable = Vec::new();
        for kept in meant {
            if can_be_sent(kept.entry.state) && !kept.is_bodiless() {
                sendable.push(kept.entry.id);
            } else {
                *left_out.entry(kept.entry.state.to_string()).or_default() += 1;
            }
        }
        sendable.truncate(replay.max.map_or(usize::MAX, |max| max as usize));
        (sendable, left_out)
    }

    pub(super) fn plan_replay(&self, replay: &NewReplay) -> ReplayPlan {
        let (sendable, left_out) = self.selected(replay);
        ReplayPlan {
            count: sendable.len() as u64,
            left_out,
            followers: sendable.iter().map(|id| self.followers(*id)).sum(),
            sample: sendable.into_iter().take(SAMPLE).collect(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn begin_replay(
        &mut self,
        id: EntryId,
        new: &NewReplay,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Replay, Refusal> {
        if self.replays.iter().any(|(replay, _)| replay.id == id) {
            return Err(Refusal::State(format!("replay {id} has begun already")));
        }
        let (sendable, _) = self.selected(new);
        let items: Vec<ReplayItem> = sendable
            .into_iter()
            .filter_map(|entry| {
                let was = self.entries.get(&entry)?.entry.state;
                Some(ReplayItem { entry, outcome: ReplayOutcome::Pending, was })
            })
            .collect();
        let replay = Replay {
            id,
            state: ReplayState::Running,
            filter: new.filter.clone(),
            by: actor.who.clone(),
            reason: actor.why.clone(),
            created_at: now,
            ended_at: None,
            rate: new.rate,
            canary: new.canary,
            total: items.len() as u64,
            sent: 0,
            recovered: 0,
            failed: 0,
            skipped: 0,
        };
        self.note(actor, "replay run", &id.to_string(), replay.total, now);
        self.replays.push((replay.clone(), items));
        Ok(replay)
    }

    pub(super) fn step_replay(
        &mut self,
        id: EntryId,
        limit: u64,
        now: Timestamp,
    ) -> Result<ReplayStep, Refusal> {
        let place = self.place_of(id)?;
        let mut sent = 0;
        if self.replays[place].0.state == ReplayState::Running {
            for item in 0..self.replays[place].1.len() {
                if sent >= limit {
                    break;
                }
                let ReplayItem { entry, outcome, was } = self.replays[place].1[item];
                if outcome != ReplayOutcome::Pending {
                    continue;
                }
                let replay = self.replays[place].0.clone();
                let went = self.send_back(entry, was, &replay, now);
                let (replay, items) = &mut self.replays[place];
                if went {
                    items[item].outcome = ReplayOutcome::Sent;
                    replay.sent += 1;
                    sent += 1;
                } else {
                    items[item].outcome = ReplayOutcome::Skipped;
                    replay.skipped += 1;
                }
            }
            self.finish(place, now);
        }
        Ok(ReplayStep { sent, state: self.replays[place].0.state })
    }

    fn send_back(&mut self, id: EntryId, was: EntryState, replay: &Replay, now: Timestamp) -> bool {
        let Some(kept) = self.entries.get(&id) else { return false };
        let attempts = kept.entry.attempts;
        if kept.entry.state != was {
            return false;
        }
        let rules = self.rules_of(id);
        let sent = self.change_free(id, |row| {
            let mut trail = row.fresh_trail();
            trail.replay = Some(headers::Replay {
                id: Some(Text::from(replay.id.to_string())),
                by: Some(Text::from(replay.by.as_str())),
                reason: Some(Text::from(replay.reason.as_str())),
                death_count: attempts,
            });
            row.carry(&trail, &rules);
            row.place = Place::Due(now);
        });
        if sent.is_none() {
            return false;
        }
        self.takes_over(id, now);
        let Some(kept) = self.entries.get_mut(&id) else { return false };
        kept.entry.state = EntryState::Replaying;
        kept.entry.due_at = None;
        kept.entry.replays += 1;
        kept.replay = Some(replay.id);
        kept.changed = now;
        let mut told = HistoryLine::new(now, "replay");
        told.by = Some(replay.by.clone());
        told.because = Some(replay.reason.clone());
        kept.tell(told);
        true
    }

    /// What became of one entry of a replay.
    pub(super) fn replayed(&mut self, id: EntryId, entry: EntryId, outcome: ReplayOutcome, now: Timestamp) {
        let Ok(place) = self.place_of(id) else { return };
        let (replay, items) = &mut self.replays[place];
        let Some(item) = items.iter_mut().find(|item| item.entry == entry) else { return };
        item.outcome = outcome;
        match outcome {
            ReplayOutcome::Recovered => replay.recovered += 1,
            _ => replay.failed += 1,
        }
        self.finish(place, now);
    }

    fn finish(&mut self, place: usize, now: Timestamp) {
        let (replay, items) = &mut self.replays[place];
        let open = |item: &ReplayItem| matches!(item.outcome, ReplayOutcome::Pending | ReplayOutcome::Sent);
        if replay.state == ReplayState::Running && !items.iter().any(open) {
            replay.state = ReplayState::Done;
            replay.ended_at = Some(now);
        }
    }

    pub(super) fn steer_replay(
        &mut self,
        id: EntryId,
        to: ReplayState,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Replay, Refusal> {
        use ReplayState::{Cancelled, Paused, Planned, Running};
        let place = self.place_of(id)?;
        let from = self.replays[place].0.state;
        let what = match (from, to) {
            (Running | Planned, Paused) => "replay pause",
            (Paused | Planned, Running) => "replay resume",
            (Running | Paused | Planned, Cancelled) => "replay cancel",
            _ => return Err(Refusal::State(format!("a replay that is {from:?} cannot become {to:?}"))),
        };
        let replay = &mut self.replays[place].0;
        replay.state = to;
        if to == Cancelled {
            replay.ended_at = Some(now);
        }
        self.note(actor, what, &id.to_string(), 1, now);
        self.finish(place, now);
        Ok(self.replays[place].0.clone())
    }

    pub(super) fn place_of(&self, id: EntryId) -> Result<usize, Refusal> {
        let place = self.replays.iter().position(|(replay, _)| replay.id == id);
        place.ok_or_else(|| Refusal::NotFound { what: "replay", name: id.to_string() })
    }
}
