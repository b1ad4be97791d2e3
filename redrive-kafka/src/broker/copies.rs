//! The copies of settlements: made, with what is known of their topics, and written where they are nobody's delivery.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use redrive_engine::port::{Outcome, PortError, Refusal, Settled, Settlement};

use super::{KafkaBroker, LOOK_AGAIN, blocking};
use crate::client;
use crate::copy::Copy;
use crate::outbox::Written;
use crate::record;
use crate::settle::{Answers, not_taken, refusal};

impl KafkaBroker {
    /// Whether it is time to look again whether a topic takes larger records now.
    fn may_look_again(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let due = looked.is_none_or(|at| at.elapsed() > LOOK_AGAIN);
        if due {
            *looked = Some(Instant::now());
        }
        due
    }

    /// The copies of each settlement. Topics that nobody has looked up are looked up first.
    pub(super) async fn copies(&self, batch: &[Settlement]) -> Vec<Result<Vec<Copy>, PortError>> {
        let now = self.clock.now();
        let mut made: Vec<Result<Vec<Copy>, Refusal>> =
            batch.iter().map(|settlement| self.copies.of(settlement, now)).collect();
        if made.iter().any(|made| matches!(made, Err(Refusal::Limit(_)))) && self.may_look_again() {
            let (topics, targets) = (Arc::clone(&self.topics), self.targets());
            // What is known is believed as long as nothing else can be learned.
            let _ = blocking("cannot look topics up", move || topics.look(&targets)).await;
            made = batch.iter().map(|settlement| self.copies.of(settlement, now)).collect();
        }
        let unknown: BTreeSet<Arc<str>> = made
            .iter()
            .flatten()
            .flatten()
            .filter(|copy| !self.topics.knows(&copy.topic))
            .map(|copy| Arc::clone(&copy.topic))
            .collect();
        let mut away = None;
        if !unknown.is_empty() {
            let (topics, asked) = (Arc::clone(&self.topics), unknown.iter().cloned().collect::<Vec<_>>());
            away = blocking("cannot look topics up", move || topics.look(&asked)).await.err();
            let is_new = |copies: &Vec<Copy>| copies.iter().any(|copy| unknown.contains(&copy.topic));
            for (made, settlement) in made.iter_mut().zip(batch) {
                if made.as_ref().is_ok_and(is_new) {
                    *made = self.copies.of(settlement, now);
                }
            }
        }
        let judge = |(made, settlement): (Result<Vec<Copy>, Refusal>, &Settlement)| {
            let elsewhere = is_elsewhere(&settlement.outcome);
            let copies = made.map_err(|refusal| {
                let target = self.copies.target(&settlement.outcome);
                let why = format!("a copy cannot be made, and its message stays unsettled: {refusal}");
                self.alarms.raise("copy_refused", &target, why);
                not_taken(elsewhere, refusal)
            })?;
            let missing = copies.iter().find(|copy| !self.topics.knows(&copy.topic));
            match (missing, &away) {
                (None, _) => Ok(copies),
                (Some(_), Some(away)) => Err(away.clone()),
                (Some(copy), None) => {
                    let refusal = Refusal::NotFound { what: "topic", name: copy.topic.to_string() };
                    if !elsewhere {
                        let why = format!("{refusal}; what is to go there stays unsettled until it is made");
                        self.alarms.raise("topic_missing", &copy.topic, why);
                    }
                    Err(not_taken(elsewhere, refusal))
                }
            }
        };
        made.into_iter().zip(batch).map(judge).collect()
    }

    /// Writes copies of what was not read here.
    pub(super) async fn write(&self, copies: Vec<Copy>) -> Result<Vec<Written>, PortError> {
        let outbox = Arc::clone(&self.outbox);
        let written = blocking("cannot write to Kafka", move || outbox.write(&copies)).await;
        let taken = written.as_ref().is_ok_and(|all| all.iter().all(Result::is_ok));
        self.writes.store(taken, Ordering::Relaxed);
        written
    }

    /// Ends what was not read here: its copies, each with whether they go to a place that is not the flow's own.
    pub(super) async fn settle_apart(&self, copies: Vec<(Vec<Copy>, bool)>) -> Answers {
        let counts: Vec<usize> = copies.iter().map(|(copies, _)| copies.len()).collect();
        let facts: Vec<(Arc<str>, bool, bool)> = copies
            .iter()
            .flat_map(|(copies, elsewhere)| copies.iter().map(move |copy| (copy, *elsewhere)))
            .map(|(copy, elsewhere)| (Arc::clone(&copy.topic), copy.carries_body, elsewhere))
            .collect();
        let flat: Vec<Copy> = copies.into_iter().flat_map(|(copies, _)| copies).collect();
        let written = if flat.is_empty() { Ok(Vec::new()) } else { self.write(flat).await };
        let written = match written {
            Ok(written) => written,
            Err(error) => return counts.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut each =
            facts.iter().zip(written).map(|((topic, carries_body, elsewhere), written)| match written {
                Ok((partition, offset)) => {
                    let copy = Some(record::place(topic, partition, offset));
                    Ok(Settled { copy, carries_body: *carries_body })
                }
                // Nobody here can mend a place that is somebody else's.
                Err(error) if *elsewhere && error.rdkafka_error_code().is_some_and(client::is_for_good) => {
                    Err(refusal(topic, &error).into())
                }
                Err(error) => Err(client::away(&format!("a copy for `{topic}` was not taken"), &error)),
            });
        let answer = |count: usize| {
            let own: Vec<_> = each.by_ref().take(count).collect();
            own.into_iter().reduce(|first, next| if next.is_err() { next } else { first })
        };
        counts.into_iter().map(answer).map(|one| one.unwrap_or_else(|| Ok(Settled::default()))).collect()
    }
}

/// Whether the copy goes to a place that is not the flow's own.
pub(super) fn is_elsewhere(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Reject { .. } | Outcome::Reroute { .. })
}
