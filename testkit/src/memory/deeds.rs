//! What people do to entries.

use redrive_core::Timestamp;
use redrive_engine::port::{
    Actor, Deed, DeedReport, EntryId, EntryState, HistoryLine, ReplayOutcome, Selection,
};

use super::queue::Place;
use super::search::fits;
use super::state::State;

/// Refusals that a report names.
const NAMED: usize = 100;

impl State {
    pub(super) fn act(
        &mut self,
        deed: &Deed,
        selection: &Selection,
        actor: &Actor,
        now: Timestamp,
    ) -> DeedReport {
        let mut report = DeedReport::default();
        let mut chosen = Vec::new();
        let subject = match selection {
            Selection::Ids(ids) => {
                for id in ids {
                    match self.find(id) {
                        Some(entry) => chosen.push((id.clone(), entry)),
                        None => report.missing.push(id.clone()),
                    }
                }
                ids.join(", ")
            }
            Selection::Filter(filter) => {
                let fitting = self.entries.values().filter(|kept| fits(filter, kept));
                chosen.extend(fitting.map(|kept| (kept.entry.id.to_string(), kept.entry.id)));
                serde_json::to_string(filter).unwrap_or_default()
            }
        };
        for (name, entry) in chosen {
            match self.act_on(deed, entry, actor, now) {
                Ok(()) => report.done += 1,
                Err(why) if report.refused.len() < NAMED => report.refused.push((name, why)),
                Err(_) => {}
            }
        }
        if report.done > 0 {
            self.note(actor, deed.name(), &subject, report.done, now);
        }
        report
    }

    fn act_on(&mut self, deed: &Deed, id: EntryId, actor: &Actor, now: Timestamp) -> Result<(), String> {
        use EntryState::{Archived, Dead, Discarded, Held, Parked, Replaying, Waiting};
        let Some(kept) = self.entries.get(&id) else { return Err("it is gone".to_owned()) };
        let state = kept.entry.state;
        let (earlier, due_at) = (kept.earlier, kept.entry.due_at);
        let flow = kept.entry.flow.clone();
        let lane = kept.lane.clone();
        // A restored follower goes back into its lane while that holds somebody.
        let rejoins = lane.clone().filter(|lane| *deed == Deed::Restore && self.holds(&flow, lane));
        let refused = || Err(format!("an entry that is {state} does not take `{}`", deed.name()));
        let (to, due) = match (deed, state) {
            (Deed::RetryNow, Waiting | Dead | Parked) => (Waiting, Some(now)),
            (Deed::Cancel, Waiting) | (Deed::Park, Waiting | Held | Dead) => (Parked, None),
            (Deed::Discard, Waiting | Held | Dead | Parked) => (Discarded, None),
            (Deed::Restore, Discarded | Archived) => match earlier {
                Some((Held, _)) if rejoins.is_none() => (Waiting, Some(now)),
                Some(before) => before,
                None => (Parked, None),
            },
            (Deed::Archive, Dead | Parked | Discarded)
            | (Deed::Reroute(_), Waiting | Held | Dead | Parked) => (Archived, None),
            (Deed::Skip, Dead | Parked) if self.is_in_a_lane(id) => (state, None),
            (Deed::Skip, Waiting | Held | Replaying) if self.is_in_a_lane(id) => (Parked, None),
            (Deed::Skip, Waiting | Held | Replaying | Dead | Parked) => {
                return Err("it stands in no lane: there is nothing to take it out of".to_owned());
            }
            _ => return refused(),
        };
        if kept.is_bodiless() && matches!(deed, Deed::RetryNow | Deed::Reroute(_)) {
            return Err("its body could not be read where it lies".to_owned());
        }
        let rules = self.rules_of(id);
        let message = self.change_free(id, |row| {
            if *deed == Deed::RetryNow && state != Waiting {
                let fresh = row.fresh_trail();
                row.carry(&fresh, &rules);
            }
            row.place = match (row.place, due) {
                // What is due already keeps its place among the others that are.
                (Place::Due(at), Some(_)) if *deed == Deed::RetryNow && at <= now => Place::Due(at),
                (Place::Ready, Some(_)) if *deed == Deed::RetryNow => Place::Ready,
                (_, Some(due)) => Place::Due(due),
                (_, None) => Place::Kept,
            };
            row.message.clone()
        });
        let Some(message) = message else { return Err("it is being handled".to_owned()) };
        if let Deed::Reroute(target) = deed {
            self.send_elsewhere(id, target, &message, &rules, now);
        }
        self.takes_over(id, now);
        if *deed == Deed::Skip {
            self.note_skipped(id);
        }
        let left = if *deed == Deed::RetryNow { None } else { self.take_out(id) };
        let Some(kept) = self.entries.get_mut(&id) else { return Err("it is gone".to_owned()) };
        let away = |state| matches!(state, Discarded | Archived);
        kept.earlier = match (away(to), away(state)) {
            (true, true) => earlier,
            (true, false) => Some((state, due_at)),
            (false, _) => None,
        };
        kept.entry.state = to;
        kept.entry.due_at = due;
        kept.changed = now;
        if matches!(kept.earlier, Some((Held, _))) {
            kept.lane = lane;
        } else if *deed == Deed::Restore {
            kept.lane = None;
        }
        let mut told = HistoryLine::new(now, deed.name());
        told.by = Some(actor.who.clone());
        told.because = Some(actor.why.clone());
        kept.tell(told);
        if to != Waiting
            && to != Held
            && let Some(replay) = kept.replay.take()
        {
            self.replayed(replay, id, ReplayOutcome::Failed, now);
        }
        let aside = to == Parked && state != Parked;
        if away(to) || aside || *deed == Deed::Restore {
            self.note_resolved(id);
        }
        if away(to) || *deed == Deed::Skip {
            self.end_heads(id, now);
        }
        if let Some(lane) = rejoins.filter(|_| to == Held) {
            self.keep_in_lane(id, &lane, None, now);
        }
        if let Some(key) = left {
            self.go_on(&key, now);
        }
        Ok(())
    }
}
