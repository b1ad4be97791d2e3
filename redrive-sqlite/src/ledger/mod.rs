//! The ledger's side of the store.

pub(crate) mod apart;
mod audit;
mod check;
mod controls;
mod copy;
mod deeds;
mod entry;
pub(crate) mod lanes;
pub(crate) mod processed;
pub(crate) mod record;
pub(crate) mod replay;
mod replay_outcome;
mod replay_plan;
mod search;
mod shelf;
mod state;
pub(crate) mod tally;
mod tidy;

use std::sync::Weak;

use async_trait::async_trait;
use redrive_core::Timestamp;
use redrive_engine::port::{
    Actor, Asked, AuditLine, Broker, Control, Copied, Counts, Deed, DeedReport, Entry, EntryId, EntryState,
    Expected, Fetched, Filter, Found, Group, HistoryLine, Ledger, NewMessage, NewReplay, Order, Overdue,
    Page, Payload, Pointer, PortError, Problem, Recorded, Replay, ReplayItem, ReplayPlan, ReplayState,
    ReplayStep, Resolved, Retention, Selection, SourceRef, Standing, Taken,
};

use crate::store::Store;

#[async_trait]
impl Ledger for Store {
    async fn record(&self, recorded: &[Recorded]) -> Result<Vec<Taken>, PortError> {
        apart::record(self, recorded).await
    }

    async fn expected(&self, flow: &str, copies: &[Copied]) -> Result<Vec<Expected>, PortError> {
        let (flow, copies) = (flow.to_owned(), copies.to_vec());
        self.inner.readers.run(move |sql| apart::expected(sql, &flow, &copies)).await
    }

    async fn overdue(
        &self,
        flow: &str,
        before: Timestamp,
        after: Option<(Timestamp, EntryId)>,
        limit: usize,
    ) -> Result<Vec<Overdue>, PortError> {
        let flow = flow.to_owned();
        self.inner.readers.run(move |sql| apart::overdue(sql, &flow, before, after, limit)).await
    }

    async fn passed(&self, copies: &[Overdue], now: Timestamp) -> Result<(), PortError> {
        let copies = copies.to_vec();
        self.inner.writer.run(move |tx| apart::passed(tx, &copies, now)).await
    }

    async fn resolved(
        &self,
        flow: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Resolved)>, PortError> {
        apart::resolved(self, flow, after, limit).await
    }

    fn fetches_from(&self, flow: &str, broker: Weak<dyn Broker>) {
        self.inner.brokers.set(flow, broker);
    }

    async fn lowest_pointers(&self, flow: &str) -> Result<Vec<SourceRef>, PortError> {
        let flow = flow.to_owned();
        self.inner.readers.run(move |sql| apart::bodies::lowest_pointers(sql, &flow)).await
    }

    async fn pointers_before(
        &self,
        flow: &str,
        place: &SourceRef,
        limit: usize,
    ) -> Result<Vec<Pointer>, PortError> {
        let (flow, place) = (flow.to_owned(), place.clone());
        self.inner.readers.run(move |sql| apart::bodies::pointers_before(sql, &flow, &place, limit)).await
    }

    async fn keep_bodies(&self, fetched: Vec<Fetched>) -> Result<u64, PortError> {
        apart::bodies::keep_bodies(self, fetched).await
    }

    async fn position(&self, name: &str) -> Result<Option<String>, PortError> {
        let name = name.to_owned();
        self.inner.readers.run(move |sql| apart::position(sql, &name)).await
    }

    async fn keep_position(&self, name: &str, position: &str) -> Result<(), PortError> {
        let (name, position) = (name.to_owned(), position.to_owned());
        self.inner.writer.run(move |tx| apart::keep_position(tx, &name, &position)).await
    }

    async fn entry(&self, id: &str) -> Result<Option<Entry>, PortError> {
        let id = id.to_owned();
        self.inner.readers.run(move |sql| entry::find(sql, &id)).await
    }

    async fn history(&self, id: EntryId) -> Result<Vec<HistoryLine>, PortError> {
        self.inner.readers.run(move |sql| entry::history(sql, id)).await
    }

    /// A body that lies at the broker is read there and kept nowhere.
    async fn payload(&self, id: EntryId) -> Result<Option<Payload>, PortError> {
        if let Some(fetched) = apart::bodies::fetch(self, id).await? {
            return Ok(Some(fetched));
        }
        self.inner.readers.run(move |sql| entry::payload(sql, id)).await
    }

    async fn search(&self, filter: &Filter, page: &Page) -> Result<Found, PortError> {
        let (filter, page) = (filter.clone(), page.clone());
        self.inner.readers.run(move |sql| search::search(sql, &filter, &page)).await
    }

    async fn groups(&self, flow: Option<&str>, limit: usize) -> Result<Vec<Group>, PortError> {
        let flow = flow.map(str::to_owned);
        self.inner.readers.run(move |sql| tally::groups(sql, flow.as_deref(), limit)).await
    }

    async fn counts(&self) -> Result<Counts, PortError> {
        self.inner.readers.run(tally::counts).await
    }

    async fn standings(&self, flow: &str, asked: &[Asked]) -> Result<Vec<Standing>, PortError> {
        let nowhere = asked.iter().all(|asked| asked.read_at.is_none());
        if nowhere && self.inner.lanes.of(flow) == 0 {
            return Ok(vec![Standing::Open; asked.len()]);
        }
        let (flow, asked) = (flow.to_owned(), asked.to_vec());
        self.inner.readers.run(move |sql| lanes::standings(sql, &flow, &asked)).await
    }

    async fn held_lanes(&self, flow: &str) -> Result<u64, PortError> {
        Ok(self.inner.lanes.of(flow))
    }

    async fn controls(&self) -> Result<Vec<Control>, PortError> {
        self.inner.readers.run(controls::list).await
    }

    async fn order(
        &self,
        flow: &str,
        order: &Order,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<u64, PortError> {
        let (flow, order, actor) = (flow.to_owned(), order.clone(), actor.clone());
        self.inner.writer.run(move |tx| controls::order(tx, &flow, &order, &actor, now)).await
    }

    async fn act(
        &self,
        deed: &Deed,
        selection: &Selection,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<DeedReport, PortError> {
        deeds::act(self, deed, selection, actor, now).await
    }

    async fn copy(
        &self,
        id: &str,
        edited: NewMessage,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<String, PortError> {
        copy::copy(self, id, edited, actor, now).await
    }

    async fn note(
        &self,
        actor: &Actor,
        what: &str,
        subject: &str,
        count: u64,
        now: Timestamp,
    ) -> Result<(), PortError> {
        let (actor, what, subject) = (actor.clone(), what.to_owned(), subject.to_owned());
        self.inner.writer.run(move |tx| audit::add(tx, &actor, &what, &subject, count, now)).await
    }

    async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditLine>, PortError> {
        self.inner.readers.run(move |sql| audit::list(sql, before, limit)).await
    }

    async fn processed(&self, handler: &str, ids: &[&str]) -> Result<Vec<bool>, PortError> {
        let (handler, ids) = (handler.to_owned(), owned(ids));
        self.inner.readers.run(move |sql| processed::which(sql, &handler, &ids)).await
    }

    async fn mark_processed(&self, handler: &str, ids: &[&str], now: Timestamp) -> Result<(), PortError> {
        let (handler, ids) = (handler.to_owned(), owned(ids));
        self.inner
            .writer
            .run(move |tx| ids.iter().try_for_each(|id| processed::mark(tx, &handler, id, now)))
            .await
    }

    async fn plan_replay(&self, replay: &NewReplay, now: Timestamp) -> Result<ReplayPlan, PortError> {
        let replay = replay.clone();
        self.inner.readers.run(move |sql| replay_plan::plan(sql, &replay, now)).await
    }

    async fn begin_replay(
        &self,
        id: EntryId,
        replay: &NewReplay,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Replay, PortError> {
        replay::begin(self, id, replay, actor, now).await
    }

    async fn step_replay(&self, id: EntryId, limit: u64, now: Timestamp) -> Result<ReplayStep, PortError> {
        replay::step_with_bodies(self, id, limit, now).await
    }

    async fn steer_replay(
        &self,
        id: EntryId,
        to: ReplayState,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Replay, PortError> {
        let actor = actor.clone();
        self.inner.writer.run(move |tx| replay::steer(tx, id, to, &actor, now)).await
    }

    async fn replays(&self, limit: usize) -> Result<Vec<Replay>, PortError> {
        self.inner.readers.run(move |sql| replay::list(sql, limit)).await
    }

    async fn replay(&self, id: EntryId) -> Result<Option<Replay>, PortError> {
        self.inner.readers.run(move |sql| replay::get(sql, id)).await
    }

    async fn replay_items(
        &self,
        id: EntryId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<ReplayItem>, PortError> {
        self.inner.readers.run(move |sql| replay::items(sql, id, after, limit)).await
    }

    async fn tidy(&self, retention: &Retention, limit: u64, now: Timestamp) -> Result<u64, PortError> {
        let retention = retention.clone();
        self.inner.writer.run(move |tx| tidy::tidy(tx, &retention, limit, now)).await
    }

    async fn check(&self) -> Result<Vec<Problem>, PortError> {
        self.inner.readers.run(check::check).await
    }

    async fn count(&self, flow: &str, state: EntryState) -> Result<u64, PortError> {
        let flow = flow.to_owned();
        self.inner.readers.run(move |sql| tally::count(sql, &flow, state)).await
    }
}

fn owned(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}
