//! The ledger's side of the store.

use async_trait::async_trait;
use redrive_core::Timestamp;
use redrive_engine::port::{
    Actor, Asked, AuditLine, Control, Copied, Counts, Deed, DeedReport, Entry, EntryId, EntryState, Expected,
    Filter, Found, Group, HistoryLine, Ledger, NewMessage, NewReplay, Order, Overdue, Page, Payload,
    PortError, Problem, Published, Recorded, Refusal, Replay, ReplayItem, ReplayPlan, ReplayState,
    ReplayStep, Resolved, Retention, Selection, Standing, Taken, home_of,
};

use super::MemoryStore;
use super::state::State;

/// A ledger in memory.
#[derive(Debug)]
pub struct MemoryLedger {
    pub(super) store: MemoryStore,
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn record(&self, recorded: &[Recorded]) -> Result<Vec<Taken>, PortError> {
        self.store.inner.faults.record(recorded)?;
        let now = self.store.inner.clock.now();
        let taken = {
            let mut state = self.store.lock();
            recorded.iter().map(|one| state.record_apart(one, now)).collect()
        };
        self.store.tell_readers();
        Ok(taken)
    }

    async fn expected(&self, flow: &str, copies: &[Copied]) -> Result<Vec<Expected>, PortError> {
        self.store.inner.faults.question()?;
        let state = self.store.lock();
        Ok(copies.iter().map(|copied| state.expects(flow, copied)).collect())
    }

    async fn overdue(
        &self,
        flow: &str,
        before: Timestamp,
        after: Option<(Timestamp, EntryId)>,
        limit: usize,
    ) -> Result<Vec<Overdue>, PortError> {
        self.store.inner.faults.question()?;
        Ok(self.store.lock().overdue(flow, before, after, limit))
    }

    async fn passed(&self, copies: &[Overdue], now: Timestamp) -> Result<(), PortError> {
        self.store.inner.faults.question()?;
        let mut state = self.store.lock();
        for one in copies {
            state.passed(one, now);
        }
        drop(state);
        self.store.tell_readers();
        Ok(())
    }

    async fn resolved(
        &self,
        flow: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Resolved)>, PortError> {
        self.store.inner.faults.question()?;
        let state = self.store.lock();
        let meant = state.resolved.iter().filter(|(number, of, _)| of == flow && *number > after);
        Ok(meant.take(limit).map(|(number, _, resolved)| (*number, resolved.clone())).collect())
    }

    async fn position(&self, name: &str) -> Result<Option<String>, PortError> {
        self.store.inner.faults.question()?;
        Ok(self.store.lock().positions.get(name).cloned())
    }

    async fn keep_position(&self, name: &str, position: &str) -> Result<(), PortError> {
        self.store.inner.faults.question()?;
        self.store.lock().positions.insert(name.to_owned(), position.to_owned());
        Ok(())
    }

    async fn entry(&self, id: &str) -> Result<Option<Entry>, PortError> {
        self.store.inner.faults.question()?;
        let state = self.store.lock();
        Ok(state.find(id).and_then(|id| state.entries.get(&id)).map(|kept| state.shown(kept)))
    }

    async fn history(&self, id: EntryId) -> Result<Vec<HistoryLine>, PortError> {
        let state = self.store.lock();
        Ok(state.entries.get(&id).map(|kept| kept.history.clone()).unwrap_or_default())
    }

    async fn payload(&self, id: EntryId) -> Result<Option<Payload>, PortError> {
        let state = self.store.lock();
        let row = state.entries.get(&id).and_then(|kept| kept.row.clone());
        let row = row.and_then(|(queue, number)| state.queues.get(&queue)?.row(number));
        Ok(row.map(|row| Payload {
            body: row.message.body.clone(),
            content_type: row.message.content_type.as_ref().map(ToString::to_string),
        }))
    }

    async fn search(&self, filter: &Filter, page: &Page) -> Result<Found, PortError> {
        self.store.inner.faults.question()?;
        let found = self.store.lock().search(filter, page);
        found.ok_or_else(|| Refusal::Invalid("this is no place to go on from".to_owned()).into())
    }

    async fn groups(&self, flow: Option<&str>, limit: usize) -> Result<Vec<Group>, PortError> {
        self.store.inner.faults.question()?;
        Ok(self.store.lock().groups(flow, limit))
    }

    async fn counts(&self) -> Result<Counts, PortError> {
        self.store.inner.faults.question()?;
        Ok(self.store.lock().counts())
    }

    async fn standings(&self, flow: &str, asked: &[Asked]) -> Result<Vec<Standing>, PortError> {
        self.store.inner.faults.standing()?;
        let state = self.store.lock();
        Ok(asked.iter().map(|asked| state.standing(flow, asked)).collect())
    }

    async fn held_lanes(&self, flow: &str) -> Result<u64, PortError> {
        Ok(self.store.lock().held_lanes(flow))
    }

    async fn controls(&self) -> Result<Vec<Control>, PortError> {
        Ok(self.store.lock().controls())
    }

    async fn order(
        &self,
        flow: &str,
        order: &Order,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<u64, PortError> {
        let released = self.store.lock().order(flow, order, actor, now);
        self.store.tell_readers();
        Ok(released?)
    }

    async fn act(
        &self,
        deed: &Deed,
        selection: &Selection,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<DeedReport, PortError> {
        self.store.inner.faults.question()?;
        let report = self.store.lock().act(deed, selection, actor, now);
        self.store.tell_readers();
        Ok(report)
    }

    async fn copy(
        &self,
        id: &str,
        edited: NewMessage,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<String, PortError> {
        let copied = {
            let mut state = self.store.lock();
            let missing = || Refusal::NotFound { what: "entry", name: id.to_owned() };
            let parent = state.find(id).ok_or_else(missing)?;
            let of = state.carried.get(&parent).cloned().ok_or_else(missing)?;
            let queue = state.goes_to(parent, &of.source.name);
            let rules = state.queue(&queue).rules.clone();
            let edited = edited.as_copy_of(of.message, &rules);
            let published = state.publish(&queue, edited, Some(parent), now);
            if let Published::Accepted(copy) = &published {
                state.note(actor, "copy", &format!("{parent} as {copy}"), 1, now);
            }
            published
        };
        self.store.tell_readers();
        match copied {
            Published::Accepted(copy) => Ok(copy),
            Published::Refused(refusal) => Err(refusal.into()),
        }
    }

    async fn note(
        &self,
        actor: &Actor,
        what: &str,
        subject: &str,
        count: u64,
        now: Timestamp,
    ) -> Result<(), PortError> {
        self.store.lock().note(actor, what, subject, count, now);
        Ok(())
    }

    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, PortError> {
        let state = self.store.lock();
        let lines = state.audit.iter().rev().filter(|line| before.is_none_or(|before| line.number < before));
        Ok(lines.take(limit).cloned().collect())
    }

    async fn processed(&self, handler: &str, ids: &[&str]) -> Result<Vec<bool>, PortError> {
        let state = self.store.lock();
        let marked = |id: &&str| state.marks.contains_key(&(handler.to_owned(), (*id).to_owned()));
        Ok(ids.iter().map(marked).collect())
    }

    async fn mark_processed(&self, handler: &str, ids: &[&str], now: Timestamp) -> Result<(), PortError> {
        self.store.inner.faults.record(&[])?;
        let mut state = self.store.lock();
        for id in ids {
            state.marks.insert((handler.to_owned(), (*id).to_owned()), now);
        }
        Ok(())
    }

    async fn plan_replay(&self, replay: &NewReplay, _now: Timestamp) -> Result<ReplayPlan, PortError> {
        Ok(self.store.lock().plan_replay(replay))
    }

    async fn begin_replay(
        &self,
        id: EntryId,
        replay: &NewReplay,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Replay, PortError> {
        Ok(self.store.lock().begin_replay(id, replay, actor, now)?)
    }

    async fn step_replay(&self, id: EntryId, limit: u64, now: Timestamp) -> Result<ReplayStep, PortError> {
        let step = self.store.lock().step_replay(id, limit, now);
        self.store.tell_readers();
        Ok(step?)
    }

    async fn steer_replay(
        &self,
        id: EntryId,
        to: ReplayState,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Replay, PortError> {
        Ok(self.store.lock().steer_replay(id, to, actor, now)?)
    }

    async fn replays(&self, limit: usize) -> Result<Vec<Replay>, PortError> {
        let state = self.store.lock();
        Ok(state.replays.iter().rev().take(limit).map(|(replay, _)| replay.clone()).collect())
    }

    async fn replay(&self, id: EntryId) -> Result<Option<Replay>, PortError> {
        let state = self.store.lock();
        Ok(state.place_of(id).ok().map(|place| state.replays[place].0.clone()))
    }

    async fn replay_items(
        &self,
        id: EntryId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ReplayItem>, PortError> {
        let state = self.store.lock();
        let place = state.place_of(id)?;
        Ok(state.replays[place].1.iter().skip(after as usize).take(limit).cloned().collect())
    }

    async fn tidy(&self, retention: &Retention, limit: u64, now: Timestamp) -> Result<u64, PortError> {
        Ok(self.store.lock().tidy(retention, limit, now))
    }

    async fn check(&self) -> Result<Vec<Problem>, PortError> {
        self.store.inner.faults.question()?;
        Ok(self.store.lock().check())
    }

    async fn count(&self, flow: &str, state: EntryState) -> Result<u64, PortError> {
        let counts = self.store.lock().counts();
        let same = counts.states.iter().find(|count| count.flow == flow && count.state == state);
        Ok(same.map_or(0, |count| count.count))
    }
}

impl State {
    /// The queue in which a copy of an entry's message is handled: the ledger's own where a broker apart has the source.
    fn goes_to(&self, entry: EntryId, source: &str) -> String {
        match self.entries.get(&entry) {
            Some(kept) if kept.shadow.is_some() => home_of(&kept.entry.flow),
            _ => source.to_owned(),
        }
    }

    fn tidy(&mut self, retention: &Retention, limit: u64, now: Timestamp) -> u64 {
        let expired =
            |at: Timestamp, kept: Option<std::time::Duration>| kept.is_some_and(|kept| at + kept <= now);
        let gone: Vec<EntryId> = self
            .entries
            .values()
            .filter(|kept| {
                let span = match kept.entry.state {
                    EntryState::Recovered | EntryState::Rejected => retention.finished,
                    EntryState::Discarded => retention.discarded,
                    EntryState::Archived => retention.archived,
                    _ => None,
                };
                expired(kept.changed, span)
            })
            .map(|kept| kept.entry.id)
            .take(limit as usize)
            .collect();
        for id in &gone {
            self.carried.remove(id);
            let row = self.entries.remove(id).and_then(|kept| kept.row);
            if let Some((queue, number)) = row {
                self.queue(&queue).remove(number);
            }
        }
        let mut removed = gone.len() as u64;
        let marks: Vec<_> = self
            .marks
            .iter()
            .filter(|(_, at)| expired(**at, retention.processed))
            .map(|(mark, _)| mark.clone())
            .take(limit.saturating_sub(removed) as usize)
            .collect();
        for mark in &marks {
            self.marks.remove(mark);
        }
        removed += marks.len() as u64;
        removed
    }

    fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for kept in self.entries.values() {
            let id = kept.entry.id;
            let row = kept.row.as_ref().and_then(|(queue, number)| self.queues.get(queue)?.row(*number));
            if kept.entry.state.is_open() && row.is_none_or(|row| row.entry != Some(id)) {
                problems.push(Problem {
                    invariant: "an open entry has its message".to_owned(),
                    found: format!("{id} is {} without one", kept.entry.state),
                });
            }
            if !kept.entry.state.is_open() && row.is_some() {
                problems.push(Problem {
                    invariant: "a finished entry has no message".to_owned(),
                    found: format!("{id} is {} with one", kept.entry.state),
                });
            }
        }
        let lanes = self.check_lanes().into_iter();
        problems.extend(lanes.map(|(invariant, found)| Problem { invariant: invariant.to_owned(), found }));
        problems
    }
}
