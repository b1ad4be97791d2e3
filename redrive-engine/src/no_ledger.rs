//! A flow without a ledger.

use async_trait::async_trait;
use redrive_core::Timestamp;

use crate::port::{
    Actor, Asked, AuditLine, Control, Copied, Counts, Deed, DeedReport, Entry, EntryId, EntryState, Expected,
    Filter, Found, Group, HistoryLine, Ledger, NewMessage, NewReplay, Order, Overdue, Page, Payload,
    PortError, Problem, Recorded, Refusal, Replay, ReplayItem, ReplayPlan, ReplayState, ReplayStep, Resolved,
    Retention, Selection, Standing, Taken,
};

/// No ledger: it knows nothing, and whoever wants something done is told that there is none. Dead letters live in the
/// broker alone.
///
/// ```
/// use redrive_engine::{NoLedger, port::Ledger};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// assert_eq!(NoLedger.entry("order-1").await, Ok(None));
/// # });
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoLedger;

fn refused<T>(what: &str) -> Result<T, PortError> {
    Err(Refusal::State(format!("`{what}` needs a ledger, and this flow runs without one")).into())
}

#[async_trait]
impl Ledger for NoLedger {
    async fn record(&self, recorded: &[Recorded]) -> Result<Vec<Taken>, PortError> {
        Ok(vec![Taken::Taken; recorded.len()])
    }

    async fn expected(&self, _flow: &str, copies: &[Copied]) -> Result<Vec<Expected>, PortError> {
        Ok(vec![Expected::Yes; copies.len()])
    }

    async fn overdue(
        &self,
        _flow: &str,
        _before: Timestamp,
        _after: Option<(Timestamp, EntryId)>,
        _limit: usize,
    ) -> Result<Vec<Overdue>, PortError> {
        Ok(Vec::new())
    }

    async fn passed(&self, _copies: &[Overdue], _now: Timestamp) -> Result<(), PortError> {
        Ok(())
    }

    async fn resolved(
        &self,
        _flow: &str,
        _after: u64,
        _limit: usize,
    ) -> Result<Vec<(u64, Resolved)>, PortError> {
        Ok(Vec::new())
    }

    async fn position(&self, _name: &str) -> Result<Option<String>, PortError> {
        Ok(None)
    }

    async fn keep_position(&self, _name: &str, _position: &str) -> Result<(), PortError> {
        Ok(())
    }

    async fn entry(&self, _id: &str) -> Result<Option<Entry>, PortError> {
        Ok(None)
    }

    async fn history(&self, _id: EntryId) -> Result<Vec<HistoryLine>, PortError> {
        Ok(Vec::new())
    }

    async fn payload(&self, _id: EntryId) -> Result<Option<Payload>, PortError> {
        Ok(None)
    }

    async fn search(&self, _filter: &Filter, _page: &Page) -> Result<Found, PortError> {
        Ok(Found { entries: Vec::new(), next: None })
    }

    async fn groups(&self, _flow: Option<&str>, _limit: usize) -> Result<Vec<Group>, PortError> {
        Ok(Vec::new())
    }

    async fn counts(&self) -> Result<Counts, PortError> {
        Ok(Counts::default())
    }

    async fn standings(&self, _flow: &str, asked: &[Asked]) -> Result<Vec<Standing>, PortError> {
        Ok(vec![Standing::Open; asked.len()])
    }

    async fn held_lanes(&self, _flow: &str) -> Result<u64, PortError> {
        Ok(0)
    }

    async fn controls(&self) -> Result<Vec<Control>, PortError> {
        Ok(Vec::new())
    }

    async fn order(
        &self,
        _flow: &str,
        order: &Order,
        _actor: &Actor,
        _now: Timestamp,
    ) -> Result<u64, PortError> {
        refused(order.name())
    }

    async fn act(
        &self,
        deed: &Deed,
        _selection: &Selection,
        _actor: &Actor,
        _now: Timestamp,
    ) -> Result<DeedReport, PortError> {
        refused(deed.name())
    }

    async fn copy(
        &self,
        _id: &str,
        _edited: NewMessage,
        _actor: &Actor,
        _now: Timestamp,
    ) -> Result<String, PortError> {
        refused("copy")
    }

    async fn note(
        &self,
        _actor: &Actor,
        what: &str,
        _subject: &str,
        _count: u64,
        _now: Timestamp,
    ) -> Result<(), PortError> {
        refused(what)
    }

    async fn audit(&self, _before: Option<u64>, _limit: usize) -> Result<Vec<AuditLine>, PortError> {
        Ok(Vec::new())
    }

    async fn processed(&self, _handler: &str, ids: &[&str]) -> Result<Vec<bool>, PortError> {
        Ok(vec![false; ids.len()])
    }

    async fn mark_processed(&self, _handler: &str, _ids: &[&str], _now: Timestamp) -> Result<(), PortError> {
        refused("a mark of a processed message")
    }

    async fn plan_replay(&self, _replay: &NewReplay, _now: Timestamp) -> Result<ReplayPlan, PortError> {
        refused("replay plan")
    }

    async fn begin_replay(
        &self,
        _id: EntryId,
        _replay: &NewReplay,
        _actor: &Actor,
        _now: Timestamp,
    ) -> Result<Replay, PortError> {
        refused("replay run")
    }

    async fn step_replay(&self, _id: EntryId, _limit: u64, _now: Timestamp) -> Result<ReplayStep, PortError> {
        refused("replay run")
    }

    async fn steer_replay(
        &self,
        _id: EntryId,
        _to: ReplayState,
        _actor: &Actor,
        _now: Timestamp,
    ) -> Result<Replay, PortError> {
        refused("replay")
    }

    async fn replays(&self, _limit: usize) -> Result<Vec<Replay>, PortError> {
        Ok(Vec::new())
    }

    async fn replay(&self, _id: EntryId) -> Result<Option<Replay>, PortError> {
        Ok(None)
    }

    async fn replay_items(
        &self,
        _id: EntryId,
        _after: u64,
        _limit: usize,
    ) -> Result<Vec<ReplayItem>, PortError> {
        Ok(Vec::new())
    }

    async fn tidy(&self, _retention: &Retention, _limit: u64, _now: Timestamp) -> Result<u64, PortError> {
        Ok(0)
    }

    async fn check(&self) -> Result<Vec<Problem>, PortError> {
        Ok(Vec::new())
    }

    async fn count(&self, _flow: &str, _state: EntryState) -> Result<u64, PortError> {
        Ok(0)
    }
}
