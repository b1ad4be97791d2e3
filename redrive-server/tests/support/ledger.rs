//! A ledger that keeps its entries in a list.

use std::sync::Mutex;

use async_trait::async_trait;
use redrive_core::{Class, Reason, Timestamp};
use redrive_engine::port::{
    Actor, Asked, AuditLine, Control, Counts, Deed, DeedReport, Entry, EntryId, EntryState, ErrorShown,
    Filter, Found, Group, HistoryLine, Ledger, MessageShown, NewMessage, NewReplay, Order, Page, Payload,
    PortError, Problem, Record, Refusal, Replay, ReplayItem, ReplayOutcome, ReplayPlan, ReplayState,
    ReplayStep, Retention, SafeToReplay, Selection, SourceShown, Standing, StateCount,
};

use super::NOW;

#[derive(Debug, Default)]
pub(crate) struct FakeLedger {
    pub(crate) entries: Mutex<Vec<Entry>>,
    pub(crate) payload: Mutex<Option<Payload>>,
    pub(crate) copies: Mutex<Vec<NewMessage>>,
    pub(crate) audit: Mutex<Vec<AuditLine>>,
    pub(crate) replays: Mutex<Vec<Replay>>,
    pub(crate) controls: Mutex<Vec<Control>>,
    pub(crate) error: Mutex<Option<PortError>>,
}

impl FakeLedger {
    pub(crate) fn add(&self, message: &str, state: EntryState) {
        let mut entries = self.entries.lock().unwrap();
        let id = EntryId::from_u128(entries.len() as u128 + 1);
        entries.push(Entry {
            id,
            flow: "orders".into(),
            state,
            message: MessageShown { id: message.into(), ..MessageShown::default() },
            source: SourceShown {
                kind: "embedded".into(),
                name: "orders".into(),
                partition: None,
                offset: None,
                delivery: None,
            },
            attempts: 3,
            first_failed_at: NOW,
            last_failed_at: NOW,
            due_at: None,
            class: Class::Transient,
            reason: Reason::DOWNSTREAM_TIMEOUT,
            group: "g-1".into(),
            error: ErrorShown::default(),
            http_status: Some(503),
            because: "the budget is spent".into(),
            handler_version: None,
            owner: None,
            entity: None,
            tenant: None,
            correlation_id: None,
            causation_id: None,
            parent_id: None,
            replays: 0,
            held_behind: None,
            followers: 0,
            safe_to_replay: SafeToReplay { verdict: "unknown".into(), why: "nothing is known".into() },
        });
    }

    pub(crate) fn fail_with(&self, error: PortError) {
        *self.error.lock().unwrap() = Some(error);
    }

    fn works(&self) -> Result<(), PortError> {
        self.error.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn write(&self, actor: &Actor, what: &str, subject: &str, count: u64, now: Timestamp) {
        let mut audit = self.audit.lock().unwrap();
        let number = audit.len() as u64 + 1;
        let (who, why) = (actor.who.clone(), actor.why.clone());
        audit.push(AuditLine {
            number,
            at: now,
            who,
            what: what.into(),
            subject: subject.into(),
            why,
            count,
        });
    }

    fn one(&self, id: EntryId) -> Result<Replay, PortError> {
        let replays = self.replays.lock().unwrap();
        let found = replays.iter().find(|replay| replay.id == id).cloned();
        found.ok_or_else(|| Refusal::NotFound { what: "replay", name: id.to_string() }.into())
    }
}

fn fits(filter: &Filter, entry: &Entry) -> bool {
    filter.flow.as_ref().is_none_or(|flow| *flow == entry.flow)
        && (filter.state.is_empty() || filter.state.contains(&entry.state))
        && filter.class.is_none_or(|class| class == entry.class)
        && filter.group.as_ref().is_none_or(|group| *group == entry.group)
        && filter.since.is_none_or(|since| entry.last_failed_at >= since)
        && filter.until.is_none_or(|until| entry.last_failed_at < until)
}

fn is(entry: &Entry, id: &str) -> bool {
    entry.id.to_string() == id || entry.message.id == id
}

#[async_trait]
impl Ledger for FakeLedger {
    async fn record(&self, _: &[Record]) -> Result<(), PortError> {
        Ok(())
    }

    async fn entry(&self, id: &str) -> Result<Option<Entry>, PortError> {
        self.works()?;
        Ok(self.entries.lock().unwrap().iter().find(|entry| is(entry, id)).cloned())
    }

    async fn history(&self, _: EntryId) -> Result<Vec<HistoryLine>, PortError> {
        let line = r#"{"at":"2026-07-01T09:00:00Z","what":"attempt","attempt":1}"#;
        Ok(vec![serde_json::from_str(line).unwrap()])
    }

    async fn payload(&self, _: EntryId) -> Result<Option<Payload>, PortError> {
        Ok(self.payload.lock().unwrap().clone())
    }

    async fn search(&self, filter: &Filter, page: &Page) -> Result<Found, PortError> {
        self.works()?;
        let start: usize = page.after.as_ref().map_or(Ok(0), |after| {
            after.parse().map_err(|_| PortError::from(Refusal::Invalid("that is no place to go on".into())))
        })?;
        let entries = self.entries.lock().unwrap();
        let all: Vec<_> = entries.iter().filter(|entry| fits(filter, entry)).cloned().collect();
        let end = start.saturating_add(page.limit);
        let next = (all.len() > end).then(|| end.to_string());
        Ok(Found { entries: all.into_iter().skip(start).take(page.limit).collect(), next })
    }

    async fn groups(&self, flow: Option<&str>, _: usize) -> Result<Vec<Group>, PortError> {
        if flow.is_some_and(|flow| flow != "orders") {
            return Ok(Vec::new());
        }
        Ok(vec![Group {
            id: "g-1".into(),
            flow: "orders".into(),
            class: Class::Transient,
            reason: Reason::DOWNSTREAM_TIMEOUT,
            kind: None,
            example: "no answer".into(),
            counts: [("dead".to_owned(), 1)].into(),
            first_seen_at: NOW,
            last_seen_at: NOW,
        }])
    }

    async fn counts(&self) -> Result<Counts, PortError> {
        self.works()?;
        let flow = "orders".to_owned();
        Ok(Counts {
            states: vec![StateCount { flow, state: EntryState::Dead, count: 1, oldest_at: Some(NOW) }],
        })
    }

    async fn standings(&self, _flow: &str, asked: &[Asked]) -> Result<Vec<Standing>, PortError> {
        Ok(asked.iter().map(|_| Standing::Open).collect())
    }

    async fn held_lanes(&self, _flow: &str) -> Result<u64, PortError> {
        Ok(0)
    }

    async fn controls(&self) -> Result<Vec<Control>, PortError> {
        self.works()?;
        Ok(self.controls.lock().unwrap().clone())
    }

    async fn order(
        &self,
        flow: &str,
        order: &Order,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<u64, PortError> {
        self.works()?;
        order.check(flow)?;
        let (kind, target) = (order.control(), order.target());
        let mut controls = self.controls.lock().unwrap();
        let before = controls.len();
        let same = |known: &Control| known.flow == flow && known.kind == kind && known.target == target;
        let held = controls.iter().find(|known| same(known)).map(|known| known.held);
        match (order.begins(), held) {
            (true, None) => controls.push(Control {
                flow: flow.into(),
                kind,
                target,
                by: actor.who.clone(),
                reason: actor.why.clone(),
                at: now,
                held: 0,
            }),
            (false, Some(_)) => controls.retain(|known| !same(known)),
            _ => return Err(order.refusal(flow).into()),
        }
        assert_ne!(before, controls.len());
        let released = held.unwrap_or(0);
        self.write(actor, order.name(), &order.subject(flow), released, now);
        Ok(released)
    }

    async fn act(
        &self,
        deed: &Deed,
        selection: &Selection,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<DeedReport, PortError> {
        self.works()?;
        let mut report = DeedReport::default();
        let mut entries = self.entries.lock().unwrap();
        if let Selection::Ids(ids) = selection {
            report.missing =
                ids.iter().filter(|id| !entries.iter().any(|entry| is(entry, id))).cloned().collect();
        }
        for entry in entries.iter_mut().filter(|entry| match selection {
            Selection::Ids(ids) => ids.iter().any(|id| is(entry, id)),
            Selection::Filter(filter) => fits(filter, entry),
        }) {
            if entry.state == EntryState::Recovered {
                report.refused.push((entry.message.id.clone(), "it has recovered".into()));
                continue;
            }
            report.done += 1;
            match deed {
                Deed::Discard => entry.state = EntryState::Discarded,
                Deed::Archive => entry.state = EntryState::Archived,
                Deed::Park | Deed::Cancel | Deed::Skip => entry.state = EntryState::Parked,
                Deed::Restore | Deed::RetryNow | Deed::Reroute(_) => {}
            }
        }
        drop(entries);
        let subject = if let Deed::Reroute(target) = deed { target.as_str() } else { "" };
        self.write(actor, deed.name(), subject, report.done, now);
        Ok(report)
    }

    async fn copy(
        &self,
        id: &str,
        edited: NewMessage,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<String, PortError> {
        if self.entry(id).await?.is_none() {
            return Err(Refusal::NotFound { what: "message", name: id.into() }.into());
        }
        self.copies.lock().unwrap().push(edited);
        self.write(actor, "copy", id, 1, now);
        Ok(format!("{id}-copy"))
    }

    async fn note(
        &self,
        actor: &Actor,
        what: &str,
        subject: &str,
        count: u64,
        now: Timestamp,
    ) -> Result<(), PortError> {
        self.write(actor, what, subject, count, now);
        Ok(())
    }

    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, PortError> {
        let lines = self.audit.lock().unwrap();
        let older = |line: &&AuditLine| before.is_none_or(|before| line.number < before);
        Ok(lines.iter().rev().filter(older).take(limit).cloned().collect())
    }

    async fn processed(&self, _: &str, ids: &[&str]) -> Result<Vec<bool>, PortError> {
        Ok(vec![false; ids.len()])
    }

    async fn mark_processed(&self, _: &str, _: &[&str], _: Timestamp) -> Result<(), PortError> {
        Ok(())
    }

    async fn plan_replay(&self, replay: &NewReplay, _: Timestamp) -> Result<ReplayPlan, PortError> {
        let found = self.search(&replay.filter, &Page::default()).await?.entries;
        let sample: Vec<_> = found.iter().map(|entry| entry.id).collect();
        let count = sample.len() as u64;
        Ok(ReplayPlan {
            count,
            left_out: std::collections::BTreeMap::new(),
            sample,
            followers: 0,
            warnings: Vec::new(),
        })
    }

    async fn begin_replay(
        &self,
        id: EntryId,
        replay: &NewReplay,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Replay, PortError> {
        let plan = self.plan_replay(replay, now).await?;
        let begun = Replay {
            id,
            state: ReplayState::Running,
            filter: replay.filter.clone(),
            by: actor.who.clone(),
            reason: actor.why.clone(),
            created_at: now,
            ended_at: None,
            rate: replay.rate,
            canary: replay.canary,
            total: plan.count,
            sent: 0,
            recovered: 0,
            failed: 0,
            skipped: 0,
        };
        self.replays.lock().unwrap().push(begun.clone());
        self.write(actor, "replay run", &id.to_string(), plan.count, now);
        Ok(begun)
    }

    async fn step_replay(&self, id: EntryId, _: u64, _: Timestamp) -> Result<ReplayStep, PortError> {
        Ok(ReplayStep { sent: 0, state: self.one(id)?.state })
    }

    async fn steer_replay(
        &self,
        id: EntryId,
        to: ReplayState,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Replay, PortError> {
        let replay = self.one(id)?;
        if replay.state == ReplayState::Cancelled {
            return Err(Refusal::State("the replay is cancelled".into()).into());
        }
        let mut replays = self.replays.lock().unwrap();
        for replay in replays.iter_mut().filter(|replay| replay.id == id) {
            replay.state = to;
        }
        drop(replays);
        self.write(actor, "replay steer", &id.to_string(), 0, now);
        self.one(id)
    }

    async fn replays(&self, limit: usize) -> Result<Vec<Replay>, PortError> {
        Ok(self.replays.lock().unwrap().iter().rev().take(limit).cloned().collect())
    }

    async fn replay(&self, id: EntryId) -> Result<Option<Replay>, PortError> {
        Ok(self.one(id).ok())
    }

    async fn replay_items(
        &self,
        id: EntryId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ReplayItem>, PortError> {
        let total = self.one(id)?.total;
        let item = |n: u64| ReplayItem {
            entry: EntryId::from_u128(u128::from(n) + 1),
            outcome: ReplayOutcome::Pending,
            was: EntryState::Dead,
        };
        Ok((after.min(total)..total).take(limit).map(item).collect())
    }

    async fn tidy(&self, _: &Retention, _: u64, _: Timestamp) -> Result<u64, PortError> {
        Ok(0)
    }

    async fn check(&self) -> Result<Vec<Problem>, PortError> {
        self.works()?;
        Ok(vec![Problem { invariant: "counts".into(), found: "one too many".into() }])
    }

    async fn count(&self, _: &str, state: EntryState) -> Result<u64, PortError> {
        Ok(self.entries.lock().unwrap().iter().filter(|entry| entry.state == state).count() as u64)
    }
}
