//! What came of the demo, held against what it promises.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use redrive::Class;
use redrive::engine::port::{EntryState, Filter, Ledger as _, Page, Replay};

use super::script::{Kind, Order};
use super::stage::{Stage, failed};
use crate::problem::Problem;

/// The most calls of a downstream that is down. A retry loop makes one for each order at least: 600.
const CALLS_WHILE_DOWN: u64 = 100;

/// What came of the demo.
#[derive(Debug)]
pub(crate) struct Summary {
    placed: u64,
    /// How often the downstream took each order.
    taken: HashMap<String, u32>,
    /// Where the orders stand that failed, by their ids.
    entries: BTreeMap<String, (EntryState, Class)>,
    attempts: u64,
    while_down: u64,
    held: bool,
    /// Orders that the new schema had parked.
    parked_by_schema: u64,
    replay: Option<Replay>,
}

impl Summary {
    pub(crate) async fn of(
        stage: &Stage,
        held: bool,
        parked_by_schema: u64,
        replay: Option<Replay>,
    ) -> Result<Self, Problem> {
        let unread = |error| failed("the demo's ledger", error);
        let mut entries = BTreeMap::new();
        let mut page = Page { limit: 1_000, after: None };
        loop {
            let found = stage.store().search(&Filter::default(), &page).await.map_err(unread)?;
            for entry in found.entries {
                entries.insert(entry.message.id, (entry.state, entry.class));
            }
            page.after = found.next;
            if page.after.is_none() {
                break;
            }
        }
        let calls = stage.downstream.calls();
        Ok(Self {
            placed: stage.look().await?.placed,
            taken: stage.downstream.taken(),
            entries,
            attempts: calls.all,
            while_down: calls.while_down,
            held,
            parked_by_schema,
            replay,
        })
    }

    fn state(&self, order: Order) -> Option<(EntryState, Class)> {
        self.entries.get(&order.id()).copied()
    }

    fn took(&self, order: Order) -> u32 {
        self.taken.get(&order.id()).copied().unwrap_or(0)
    }

    fn count(&self, state: EntryState) -> usize {
        self.entries.values().filter(|(stands, _)| *stands == state).count()
    }

    /// Neither taken by the downstream nor kept in the ledger.
    fn lost(&self) -> usize {
        let kept = |order: &Order| self.state(*order).is_some_and(|(state, _)| state.is_open());
        Order::all().filter(|order| self.took(*order) == 0 && !kept(order)).count()
    }

    fn poison_parked(&self) -> usize {
        let poison = Order::all().filter(|order| order.kind() == Kind::Poison);
        poison.filter(|order| self.state(*order) == Some((EntryState::Parked, Class::Poison))).count()
    }

    fn delivered(&self) -> usize {
        Order::all().filter(|order| order.kind() != Kind::Poison && self.took(*order) > 0).count()
    }

    fn twice(&self) -> usize {
        self.taken.values().filter(|times| **times > 1).count()
    }

    /// What was promised and did not come out.
    pub(crate) fn broken(&self) -> Vec<String> {
        let schema = Order::count(Kind::NewSchema) as u64;
        let recovered = self.replay.as_ref().map_or(0, |replay| replay.recovered);
        let deliverable = Order::all().count() - Order::count(Kind::Poison);
        let promises = [
            (self.lost() == 0, format!("{} orders are lost", self.lost())),
            (
                self.delivered() == deliverable,
                format!("{} of {deliverable} orders were delivered", self.delivered()),
            ),
            (self.count(EntryState::Dead) == 0, format!("{} are dead", self.count(EntryState::Dead))),
            (
                self.poison_parked() == Order::count(Kind::Poison)
                    && self.count(EntryState::Parked) == self.poison_parked(),
                format!(
                    "{} are parked, {} of them poison",
                    self.count(EntryState::Parked),
                    self.poison_parked()
                ),
            ),
            (
                self.parked_by_schema == schema,
                format!(
                    "{} of {schema} orders with the new schema were parked in one group",
                    self.parked_by_schema
                ),
            ),
            (recovered == schema, format!("the replay recovered {recovered} of {schema}")),
            (self.held, "the breaker did not open while the downstream was down".to_owned()),
            (
                self.while_down <= CALLS_WHILE_DOWN,
                format!("a downstream that was down got {} calls", self.while_down),
            ),
        ];
        promises.into_iter().filter(|(kept, _)| !kept).map(|(_, broken)| broken).collect()
    }

    /// For people and for tests: one line a figure.
    pub(crate) fn text(&self) -> String {
        let recovered = self.replay.as_ref().map_or(0, |replay| replay.recovered);
        let rows: [(&str, u64, &str); 10] = [
            ("placed", self.placed, "orders in a minute"),
            ("delivered", self.delivered() as u64, ""),
            ("recovered", self.count(EntryState::Recovered) as u64, "of them after they had failed"),
            ("replayed", recovered, "of them by that one command"),
            ("twice", self.twice() as u64, "of them more than once"),
            ("parked", self.poison_parked() as u64, "poison, which no fix helps"),
            ("dead", self.count(EntryState::Dead) as u64, ""),
            ("lost", self.lost() as u64, ""),
            ("attempts", self.attempts, "calls of the downstream"),
            ("outage", self.while_down, "of them in the 30 seconds when it was down"),
        ];
        let mut text = String::from("\n");
        for (name, count, note) in rows {
            let line = format!("  {name:<10}{count:>6}  {note}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}
