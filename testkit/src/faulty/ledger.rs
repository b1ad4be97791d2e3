//! A real ledger that can be told not to listen, or to be away.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use redrive_core::Timestamp;
use redrive_engine::port::{
    Actor, Asked, AuditLine, Broker, Control, Copied, Counts, Deed, DeedReport, Entry, EntryId, EntryState,
    Expected, Fetched, Filter, Found, Group, HistoryLine, Ledger, NewMessage, NewReplay, Order, Overdue,
    Page, Payload, Pointer, PortError, Problem, Recorded, Replay, ReplayItem, ReplayPlan, ReplayState,
    ReplayStep, Resolved, Retention, Selection, SourceRef, Standing, Taken,
};

use super::Deaf;

/// A ledger in front of which somebody may stand.
#[derive(Debug)]
pub struct FaultyLedger {
    ledger: Arc<dyn Ledger>,
    deaf: Arc<Deaf>,
}

impl FaultyLedger {
    /// Stands in front of this one.
    pub fn new(ledger: Arc<dyn Ledger>, deaf: Arc<Deaf>) -> Self {
        Self { ledger, deaf }
    }
}

#[async_trait]
impl Ledger for FaultyLedger {
    async fn record(&self, recorded: &[Recorded]) -> Result<Vec<Taken>, PortError> {
        self.deaf.is_told()?;
        self.ledger.record(recorded).await
    }

    async fn expected(&self, flow: &str, copies: &[Copied]) -> Result<Vec<Expected>, PortError> {
        self.deaf.is_there()?;
        self.ledger.expected(flow, copies).await
    }

    async fn overdue(
        &self,
        flow: &str,
        before: Timestamp,
        after: Option<(Timestamp, EntryId)>,
        limit: usize,
    ) -> Result<Vec<Overdue>, PortError> {
        self.deaf.is_there()?;
        self.ledger.overdue(flow, before, after, limit).await
    }

    async fn passed(&self, copies: &[Overdue], now: Timestamp) -> Result<(), PortError> {
        self.deaf.is_there()?;
        self.ledger.passed(copies, now).await
    }

    async fn resolved(
        &self,
        flow: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Resolved)>, PortError> {
        self.deaf.is_there()?;
        self.ledger.resolved(flow, after, limit).await
    }

    fn fetches_from(&self, flow: &str, broker: Weak<dyn Broker>) {
        self.ledger.fetches_from(flow, broker);
    }

    async fn lowest_pointers(&self, flow: &str) -> Result<Vec<SourceRef>, PortError> {
        self.deaf.is_there()?;
        self.ledger.lowest_pointers(flow).await
    }

    async fn pointers_before(
        &self,
        flow: &str,
        place: &SourceRef,
        limit: usize,
    ) -> Result<Vec<Pointer>, PortError> {
        self.deaf.is_there()?;
        self.ledger.pointers_before(flow, place, limit).await
    }

    async fn keep_bodies(&self, fetched: Vec<Fetched>) -> Result<u64, PortError> {
        self.deaf.is_there()?;
        self.ledger.keep_bodies(fetched).await
    }

    async fn position(&self, name: &str) -> Result<Option<String>, PortError> {
        self.deaf.is_there()?;
        self.ledger.position(name).await
    }

    async fn keep_position(&self, name: &str, position: &str) -> Result<(), PortError> {
        self.deaf.is_there()?;
        self.ledger.keep_position(name, position).await
    }

    async fn entry(&self, id: &str) -> Result<Option<Entry>, PortError> {
        self.deaf.is_there()?;
        self.ledger.entry(id).await
    }

    async fn history(&self, id: EntryId) -> Result<Vec<HistoryLine>, PortError> {
        self.deaf.is_there()?;
        self.ledger.history(id).await
    }

    async fn payload(&self, id: EntryId) -> Result<Option<Payload>, PortError> {
        self.deaf.is_there()?;
        self.ledger.payload(id).await
    }

    async fn search(&self, filter: &Filter, page: &Page) -> Result<Found, PortError> {
        self.deaf.is_there()?;
        self.ledger.search(filter, page).await
    }

    async fn groups(&self, flow: Option<&str>, limit: usize) -> Result<Vec<Group>, PortError> {
        self.deaf.is_there()?;
        self.ledger.groups(flow, limit).await
    }

    async fn counts(&self) -> Result<Counts, PortError> {
        self.deaf.is_there()?;
        self.ledger.counts().await
    }

    async fn standings(&self, flow: &str, asked: &[Asked]) -> Result<Vec<Standing>, PortError> {
        self.deaf.is_there()?;
        self.ledger.standings(flow, asked).await
    }

    async fn held_lanes(&self, flow: &str) -> Result<u64, PortError> {
        self.deaf.is_there()?;
        self.ledger.held_lanes(flow).await
    }

    async fn controls(&self) -> Result<Vec<Control>, PortError> {
        self.deaf.is_there()?;
        self.ledger.controls().await
    }

    async fn order(
        &self,
        flow: &str,
        order: &Order,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<u64, PortError> {
        self.deaf.is_there()?;
        self.ledger.order(flow, order, actor, now).await
    }

    async fn act(
        &self,
        deed: &Deed,
        selection: &Selection,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<DeedReport, PortError> {
        self.deaf.is_there()?;
        self.ledger.act(deed, selection, actor, now).await
    }

    async fn copy(
        &self,
        id: &str,
        edited: NewMessage,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<String, PortError> {
        self.deaf.is_there()?;
        self.ledger.copy(id, edited, actor, now).await
    }

    async fn note(
        &self,
        actor: &Actor,
        what: &str,
        subject: &str,
        count: u64,
        now: Timestamp,
    ) -> Result<(), PortError> {
        self.deaf.is_there()?;
        self.ledger.note(actor, what, subject, count, now).await
    }

    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, PortError> {
        self.deaf.is_there()?;
        self.ledger.audit(before, limit).await
    }

    async fn processed(&self, handler: &str, ids: &[&str]) -> Result<Vec<bool>, PortError> {
        self.deaf.is_there()?;
        self.ledger.processed(handler, ids).await
    }

    async fn mark_processed(&self, handler: &str, ids: &[&str], now: Timestamp) -> Result<(), PortError> {
        self.deaf.is_told()?;
        self.ledger.mark_processed(handler, ids, now).await
    }

    async fn plan_replay(&self, replay: &NewReplay, now: Timestamp) -> Result<ReplayPlan, PortError> {
        self.deaf.is_there()?;
        self.ledger.plan_replay(replay, now).await
    }

    async fn begin_replay(
        &self,
        id: EntryId,
        replay: &NewReplay,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Replay, PortError> {
        self.deaf.is_there()?;
        self.ledger.begin_replay(id, replay, actor, now).await
    }

    async fn step_replay(&self, id: EntryId, limit: u64, now: Timestamp) -> Result<ReplayStep, PortError> {
        self.deaf.is_there()?;
        self.ledger.step_replay(id, limit, now).await
    }

    async fn steer_replay(
        &self,
        id: EntryId,
        to: ReplayState,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Replay, PortError> {
        self.deaf.is_there()?;
        self.ledger.steer_replay(id, to, actor, now).await
    }

    async fn replays(&self, limit: usize) -> Result<Vec<Replay>, PortError> {
        self.deaf.is_there()?;
        self.ledger.replays(limit).await
    }

    async fn replay(&self, id: EntryId) -> Result<Option<Replay>, PortError> {
        self.deaf.is_there()?;
        self.ledger.replay(id).await
    }

    async fn replay_items(
        &self,
        id: EntryId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ReplayItem>, PortError> {
        self.deaf.is_there()?;
        self.ledger.replay_items(id, after, limit).await
    }

    async fn tidy(&self, retention: &Retention, limit: u64, now: Timestamp) -> Result<u64, PortError> {
        self.deaf.is_there()?;
        self.ledger.tidy(retention, limit, now).await
    }

    async fn check(&self) -> Result<Vec<Problem>, PortError> {
        self.deaf.is_there()?;
        self.ledger.check().await
    }

    async fn count(&self, flow: &str, state: EntryState) -> Result<u64, PortError> {
        self.deaf.is_there()?;
        self.ledger.count(flow, state).await
    }
}
