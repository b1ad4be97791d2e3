//! Ending deliveries where two stores have a part in it.
//!
//! The order of the writes is what keeps the promises. What holds or opens a lane, and what marks a message as processed,
//! is in the ledger before the broker lets go: a crash in between makes the message come again, and the ledger knows its
//! place. All else is at the broker first, and the ledger is told.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::source::{from_home, is_home};
use super::{Inner, log};
use crate::fail;
use crate::port::{
    Broker, Delivery, Keeper, LaneName, Learned, Outcome, PortError, Recorded, Settled, Settlement, Tag,
    Taken,
};

type Answer = Result<Settled, PortError>;

/// Copies that were written and whose originals are not settled yet: given again, they are not written again.
#[derive(Debug, Default)]
pub(super) struct Written(Mutex<HashMap<Tag, Settled>>);

impl Written {
    fn book(&self) -> MutexGuard<'_, HashMap<Tag, Settled>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which way a settlement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The broker alone.
    Plain,
    /// The broker, and then the ledger is told.
    Told,
    /// The ledger, and then the broker.
    First(Keeper),
    /// The ledger's own queue.
    Home,
    /// A copy at the broker, and then the ledger's own queue.
    Copied,
}

impl Way {
    fn of(settlement: &Settlement, delay_in_ledger: bool, outer: &dyn Broker) -> Self {
        let outcome = &settlement.outcome;
        if is_home(settlement.delivery.tag) {
            let copied = matches!(
                outcome,
                Outcome::DeadLetter | Outcome::Park | Outcome::Reject { .. } | Outcome::Reroute { .. }
            );
            return if copied { Self::Copied } else { Self::Home };
        }
        if *outcome == Outcome::Return || (settlement.record.is_none() && settlement.processed_by.is_none()) {
            return Self::Plain;
        }
        match outcome {
            Outcome::Hold { .. } => Self::First(Keeper::Ledger),
            Outcome::Delay { .. } if delay_in_ledger => Self::First(Keeper::Ledger),
            // A copy that waits has to be whole: what no place of the broker takes waits in the ledger.
            Outcome::Delay { .. } if outer.leaves_body(settlement) => Self::First(Keeper::Ledger),
            _ if settlement.lane.is_some() || settlement.processed_by.is_some() => {
                Self::First(Keeper::Broker)
            }
            Outcome::DeadLetter | Outcome::Park if outer.leaves_body(settlement) => {
                Self::First(Keeper::Broker)
            }
            _ => Self::Told,
        }
    }

    /// Whether the ledger's store has to be written before it is settled.
    const fn needs_ledger(self) -> bool {
        matches!(self, Self::First(_) | Self::Home | Self::Copied)
    }

    const fn is_home(self) -> bool {
        matches!(self, Self::Home | Self::Copied)
    }
}

/// The lanes that a settlement is about.
fn lanes(settlement: &Settlement) -> impl Iterator<Item = &LaneName> {
    let held = if let Outcome::Hold { lane } = &settlement.outcome { Some(lane) } else { None };
    settlement.lane.iter().chain(held)
}

/// How many of these can be written in one go: no lane is in both stores' part, so that their order within a lane holds.
fn round(batch: &[Settlement], ways: &[Way]) -> usize {
    let (mut at_home, mut first): (HashSet<&LaneName>, HashSet<&LaneName>) = Default::default();
    for (count, (settlement, way)) in batch.iter().zip(ways).enumerate() {
        if !way.needs_ledger() {
            continue;
        }
        let (mine, other) = if way.is_home() { (&mut at_home, &first) } else { (&mut first, &at_home) };
        if lanes(settlement).any(|lane| other.contains(lane)) {
            return count;
        }
        mine.extend(lanes(settlement));
    }
    batch.len()
}

/// One round of a batch: what is settled in one go.
struct Round<'a> {
    inner: &'a Inner,
    batch: &'a [Settlement],
    ways: &'a [Way],
    answers: Vec<Option<Answer>>,
}

impl Inner {
    pub(super) async fn settle(&self, batch: &[Settlement]) -> Vec<Answer> {
        let _moving = self.moving.read().await;
        let ways: Vec<Way> = batch
            .iter()
            .map(|settlement| Way::of(settlement, self.options.delay_in_ledger, &*self.outer))
            .collect();
        if ways.iter().all(|way| *way == Way::Plain) {
            let answers = self.outer.settle(batch).await;
            for (settlement, answer) in batch.iter().zip(&answers) {
                if matches!(answer, Ok(_) | Err(PortError::Refused(_))) {
                    self.projection.in_hand.end(&settlement.delivery);
                }
            }
            return answers;
        }
        let mut answers = Vec::with_capacity(batch.len());
        let mut away = None;
        while answers.len() < batch.len() {
            let from = answers.len();
            let count = round(&batch[from..], &ways[from..]).max(1);
            let (batch, ways) = (&batch[from..from + count], &ways[from..from + count]);
            let mut round = Round { inner: self, batch, ways, answers: vec![None; count] };
            // What comes later in a lane does not overtake what could not be written.
            match &away {
                None => round.ledger_first().await,
                Some(error) => round.refuse(error, Way::needs_ledger),
            }
            away = away.or_else(|| round.away());
            round.at_home(away.as_ref()).await;
            away = away.or_else(|| round.away());
            round.at_broker().await;
            answers.extend(round.answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(lost()))));
        }
        answers
    }
}

/// Nobody answered for it, which does not happen; given again, it is settled.
fn lost() -> PortError {
    PortError::Unavailable("no answer to a settlement".to_owned())
}

impl Round<'_> {
    fn of(&self, way: impl Fn(Way) -> bool) -> Vec<usize> {
        let open = |place: &usize| self.answers[*place].is_none();
        (0..self.batch.len()).filter(|place| way(self.ways[*place])).filter(open).collect()
    }

    fn refuse(&mut self, error: &PortError, way: impl Fn(Way) -> bool) {
        for place in self.of(way) {
            self.answers[place] = Some(Err(error.clone()));
        }
    }

    /// What the ledger's side said when it did not do its part.
    fn away(&self) -> Option<PortError> {
        self.answers.iter().flatten().find_map(|answer| match answer {
            Err(error @ (PortError::Unavailable(_) | PortError::Broken(_))) => Some(error.clone()),
            _ => None,
        })
    }

    /// Writes down what has to stand in the ledger first.
    async fn ledger_first(&mut self) {
        let places = self.of(|way| matches!(way, Way::First(_)));
        if places.is_empty() {
            return;
        }
        let Inner { ledger, projection, flow, health, .. } = self.inner;
        let recorded: Vec<Recorded> = places
            .iter()
            .map(|place| self.inner.recorded(&self.batch[*place], self.ways[*place], Settled::default()))
            .collect();
        match projection.record(&**ledger, flow, &recorded).await {
            Ok(taken) => {
                fail::point("apart.after_ledger");
                health.answers(flow);
                for (place, taken) in places.into_iter().zip(taken) {
                    let delivery = &self.batch[place].delivery;
                    self.answers[place] = match taken {
                        Ok(Taken::Taken) => None,
                        Ok(Taken::GiveBack) => Some(self.give_back(delivery.clone()).await),
                        Err(error) => Some(Err(error)),
                    };
                }
            }
            Err(error) => {
                health.is_away(flow, &error);
                self.refuse(&error, |way| matches!(way, Way::First(_)));
            }
        }
    }

    /// Settles what came from the ledger's own queue.
    async fn at_home(&mut self, away: Option<&PortError>) {
        let places = self.of(Way::is_home);
        if places.is_empty() {
            return;
        }
        if let Some(error) = away {
            return self.refuse(error, Way::is_home);
        }
        self.write_copies().await;
        let places = self.of(Way::is_home);
        let batch: Vec<Settlement> = places
            .iter()
            .map(|place| {
                let mut settlement = self.batch[*place].clone();
                settlement.delivery.tag = from_home(settlement.delivery.tag);
                if let Outcome::Reject { .. } | Outcome::Reroute { .. } = settlement.outcome {
                    let open = settlement.record.as_ref().is_some_and(|record| record.state.is_open());
                    settlement.outcome = if open { Outcome::Discard } else { Outcome::Ack };
                }
                settlement
            })
            .collect();
        if batch.is_empty() {
            return;
        }
        let Inner { home, written, projection, flow, health, .. } = self.inner;
        let answers = home.settle(&batch).await;
        for (place, answer) in places.into_iter().zip(answers) {
            let settlement = &self.batch[place];
            match &answer {
                Err(error @ (PortError::Unavailable(_) | PortError::Broken(_))) => {
                    health.is_away(flow, error);
                }
                _ => {
                    health.answers(flow);
                    let copied = written.book().remove(&settlement.delivery.tag);
                    let copied = copied.filter(|copied| copied.copy.is_some() && answer.is_ok());
                    if let (Some(copied), Some(_)) = (copied, &settlement.record) {
                        projection.add(flow, self.inner.recorded(settlement, Way::Copied, copied));
                    }
                }
            }
            self.answers[place] = Some(answer);
        }
    }

    /// Writes to the broker what goes there from the ledger's own queue.
    async fn write_copies(&mut self) {
        let Inner { outer, written, flow, .. } = self.inner;
        let mut places = self.of(|way| way == Way::Copied);
        {
            let book = written.book();
            places.retain(|place| !book.contains_key(&self.batch[*place].delivery.tag));
        }
        if places.is_empty() {
            return;
        }
        let copies: Vec<Settlement> = places
            .iter()
            .map(|place| {
                let mut settlement = self.batch[*place].clone();
                settlement.delivery.tag = Tag::APART;
                settlement
            })
            .collect();
        let answers = outer.settle(&copies).await;
        fail::point("apart.after_copy");
        for (place, answer) in places.into_iter().zip(answers) {
            let settlement = &self.batch[place];
            let to_elsewhere = matches!(settlement.outcome, Outcome::Reject { .. } | Outcome::Reroute { .. });
            match answer {
                Ok(copied) => _ = written.book().insert(settlement.delivery.tag, copied),
                Err(PortError::Refused(refusal)) if !to_elsewhere => {
                    // The ledger keeps it anyway; what is missing is the copy that a rebuild would find.
                    log::no_copy(flow, &settlement.delivery, &refusal);
                }
                Err(error) => self.answers[place] = Some(Err(error)),
            }
        }
    }

    async fn give_back(&self, delivery: Delivery) -> Answer {
        self.inner.projection.in_hand.end(&delivery);
        let settlement = Settlement::plain(delivery, Outcome::Return);
        let answers = self.inner.outer.settle(std::slice::from_ref(&settlement)).await;
        answers.into_iter().next().unwrap_or_else(|| Err(lost()))
    }

    /// Lets the broker do its part, and has the ledger told of it.
    async fn at_broker(&mut self) {
        let places = self.of(|way| !way.is_home());
        if places.is_empty() {
            return;
        }
        let batch: Vec<Settlement> = places
            .iter()
            .map(|place| {
                let settlement = &self.batch[*place];
                match self.ways[*place] {
                    // The ledger has it: the broker only lets go.
                    Way::First(Keeper::Ledger) => {
                        Settlement::plain(settlement.delivery.clone(), Outcome::Ack)
                    }
                    _ => settlement.clone(),
                }
            })
            .collect();
        let Inner { outer, projection, flow, .. } = self.inner;
        let answers = outer.settle(&batch).await;
        fail::point("apart.after_broker");
        for (place, answer) in places.into_iter().zip(answers) {
            let (settlement, way) = (&self.batch[place], self.ways[place]);
            match &answer {
                Err(PortError::Unavailable(_) | PortError::Broken(_)) => {}
                Ok(settled) if way == Way::Told => {
                    projection.add(flow, self.inner.recorded(settlement, way, settled.clone()));
                }
                Ok(settled @ Settled { copy: Some(_), .. }) if way == Way::First(Keeper::Broker) => {
                    // The ledger knows of it, but not where the copy lies.
                    projection.add(flow, self.inner.recorded(settlement, way, settled.clone()));
                }
                // What the ledger had to know, it knew first.
                Ok(_) => projection.in_hand.told(settlement),
                Err(PortError::Refused(_)) => projection.in_hand.end(&settlement.delivery),
            }
            self.answers[place] = Some(answer);
        }
    }
}

impl Inner {
    /// What the ledger learns of a settlement, of which the broker said this.
    fn recorded(&self, settlement: &Settlement, way: Way, settled: Settled) -> Recorded {
        let keeper = if let Way::First(keeper) = way { keeper } else { Keeper::Broker };
        // What has no body any more is shown, and is not sent again.
        let gone = settlement.delivery.trail.body_is_gone();
        let learned = if gone { Learned::Found { bodiless: true } } else { Learned::Settled };
        let by_pointer = self.options.by_pointer && settled.carries_body && !gone;
        Recorded { settlement: settlement.clone(), copy: settled.copy, keeper, learned, by_pointer }
    }
}
