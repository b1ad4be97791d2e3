//! What people do to entries.

use redrive_core::Timestamp;
use redrive_engine::port::{Actor, Deed, DeedReport, EntryId, EntryState, ReplayOutcome, Selection};

use super::entries::line;
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
        use EntryState::{Archived, Dead, Discarded, Held, Parked, Waiting};
        let Some(kept) = self.entries.get(&id) else { return Err("it is gone".to_owned()) };
        let state = kept.entry.state;
        let (earlier, due_at) = (kept.earlier, kept.entry.due_at);
        let refused = || Err(format!("an entry that is {state} does not take `{}`", deed.name()));
        let (to, due) = match (deed, state) {
            (Deed::RetryNow, Waiting | Dead | Parked) => (Waiting, Some(now)),
            (Deed::Cancel, Waiting) | (Deed::Park, Waiting | Held | Dead) => (Parked, None),
            (Deed::Discard, Waiting | Held | Dead | Parked) => (Discarded, None),
            (Deed::Restore, Discarded | Archived) => match earlier {
                Some(before) => before,
                None => (Parked, None),
            },
            (Deed::Archive, Dead | Parked | Discarded)
            | (Deed::Reroute(_), Waiting | Held | Dead | Parked) => (Archived, None),
            _ => return refused(),
        };
        let Some(row) = self.free_row(id) else { return Err("it is being handled".to_owned()) };
        if *deed == Deed::RetryNow && state != Waiting {
            let fresh = row.fresh_trail();
            row.carry(&fresh);
        }
        row.place = match due {
            Some(due) => Place::Due(due),
            None => Place::Kept,
        };
        let message = row.message.clone();
        if let Deed::Reroute(target) = deed {
            self.forward(target, &message, now);
        }
        let Some(kept) = self.entries.get_mut(&id) else { return Err("it is gone".to_owned()) };
        kept.earlier = matches!(to, Discarded | Archived).then_some((state, due_at));
        kept.entry.state = to;
        kept.entry.due_at = due;
        kept.changed = now;
        let mut told = line(now, deed.name());
        told.by = Some(actor.who.clone());
        told.because = Some(actor.why.clone());
        kept.tell(told);
        if to != Waiting
            && let Some(replay) = kept.replay.take()
        {
            self.replayed(replay, id, ReplayOutcome::Failed, now);
        }
        Ok(())
    }
}
