//! Settling in transactions: copies and positions become visible together, or not at all.
//!
//! A producer whose transaction has just been committed is told to wait by the broker until that is written everywhere, and
//! librdkafka asks again after 20 ms only. So there are two that take turns: transactions still follow one another, and
//! of two positions that a group was given it keeps the later one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::producer::Producer as _;
use redrive_engine::fail;
use redrive_engine::port::{Refusal, Tag};

use super::Settling;
use super::commit::{self, PAUSE, TRIES};
use super::entry::Entry;
use super::reports::{Home, Place, Producer, Report, Reports, send};
use super::trouble::Trouble;
use crate::client;
use crate::metrics;
use crate::position::Position;
use crate::reader::Watch;

/// How long records may take to be acknowledged: a little longer than the producer itself waits.
const DELIVERY: Duration = Duration::from_secs(12);
/// How long the other reports are waited for when one says that a record failed.
const AFTER_FAILURE: Duration = Duration::from_millis(200);
/// The longest pause between two questions whether a transaction was committed.
const MOST_PAUSE: Duration = Duration::from_secs(2);
/// How long one step of a transaction may take before it is asked again.
const STEP: Duration = Duration::from_secs(5);

/// What came of a transaction.
enum Attempt {
    /// It is committed; where the copies lie, entry by entry.
    Done(Vec<Vec<Place>>),
    /// It was given up because of these, each with its topic and what was said.
    Refused(Vec<(usize, String, KafkaError)>),
    /// It was given up because the group is changing.
    Again(String),
    /// It was given up because the group does not take the position of one of its partitions.
    Position(String),
    /// It was given up because Kafka does not answer.
    Away(String),
}

/// How a transaction is left that failed.
enum Failed {
    /// It is to be given up.
    Abort(KafkaError),
    /// The producer is of no use any more.
    Producer(KafkaError),
}

type Positions = Vec<(Arc<str>, i32, Position)>;

/// Settles in transactions.
pub(super) struct Transactions {
    with: Settling,
    producers: [Option<Producer>; 2],
    /// Whose turn it is.
    turn: usize,
}

impl Transactions {
    pub(super) fn new(with: Settling) -> Self {
        Self { with, producers: [None, None], turn: 0 }
    }

    /// A first transaction takes half a second; nobody waits for these. What an earlier process of this name left open
    /// in either is ended.
    pub(super) fn warm_up(&mut self) {
        for _ in 0..self.producers.len() {
            if let Err(error) = self.producer() {
                let error = client::shown(&error);
                tracing::warn!(group = self.with.member.group, error, "no transactional producer yet");
            }
            self.pass_on();
        }
    }

    /// The producer whose turn it is, made anew when there is none. Whatever the last one left open is ended by that.
    fn producer(&mut self) -> KafkaResult<&Producer> {
        let (group, instance) = (&self.with.member.group, &self.with.flow.instance);
        let slot = &mut self.producers[self.turn];
        if slot.is_none() {
            let id =
                if self.turn == 0 { format!("{group}-{instance}") } else { format!("{group}-{instance}-2") };
            let config = client::producer(&self.with.flow, Some(&id));
            let producer = Producer::from_config_and_context(&config, Home)?;
            producer.init_transactions(client::ANSWER)?;
            *slot = Some(producer);
        }
        slot.as_ref().ok_or(KafkaError::Canceled)
    }

    /// The next transaction is the other one's.
    fn pass_on(&mut self) {
        self.turn = (self.turn + 1) % self.producers.len();
    }

    /// The producer is of no use any more.
    fn drop_producer(&mut self) {
        self.producers[self.turn] = None;
    }

    pub(super) fn settle(&mut self, entries: &mut [Entry], ours: Vec<usize>) {
        let mut groups = vec![ours];
        let mut tries = 0;
        while let Some(group) = groups.pop() {
            if group.is_empty() {
                continue;
            }
            let begun = Instant::now();
            let tags: Vec<Tag> = group.iter().map(|place| entries[*place].tag).collect();
            let attempt = self.attempt(entries, &group, &tags);
            if matches!(attempt, Attempt::Done(_)) {
                self.with.member.finish(&tags);
            } else {
                self.with.member.stay(&tags);
            }
            match attempt {
                Attempt::Done(places) => {
                    tries = 0;
                    metrics::committed(&self.with.flow.flow, begun.elapsed(), tags.len());
                    for (place, lies) in group.iter().zip(&places) {
                        let copy = commit::place(&entries[*place], lies);
                        entries[*place].done(copy);
                    }
                    if places.iter().any(|lies| !lies.is_empty()) && groups.is_empty() {
                        Trouble::new(&self.with).is_over(entries);
                    }
                }
                Attempt::Refused(refused) => self.divide(entries, group, &refused, &mut groups),
                Attempt::Again(why) if tries < TRIES => {
                    tracing::debug!(why, "a transaction is tried again");
                    tries += 1;
                    std::thread::sleep(PAUSE);
                    groups.push(group);
                }
                Attempt::Position(why) => {
                    let parts = commit::by_stream(&group, entries);
                    if parts.len() > 1 {
                        groups.extend(parts);
                    } else {
                        for place in group {
                            entries[place].away(&why);
                        }
                    }
                }
                Attempt::Again(why) | Attempt::Away(why) => {
                    for place in group.into_iter().chain(groups.drain(..).flatten()) {
                        entries[place].away(&why);
                    }
                }
            }
        }
    }

    /// A transaction fails as a whole. Those that were not refused go first; among those that were, all may be named
    /// because of one, so they are tried by halves until it stands alone.
    fn divide(
        &self,
        entries: &mut [Entry],
        group: Vec<usize>,
        refused: &[(usize, String, KafkaError)],
        groups: &mut Vec<Vec<usize>>,
    ) {
        if let ([place], Some((_, topic, error))) = (&group[..], refused.first()) {
            let refusal = Trouble::new(&self.with).refuse(topic, error);
            return entries[*place].refused(refusal);
        }
        let (bad, good): (Vec<usize>, Vec<usize>) =
            group.into_iter().partition(|place| refused.iter().any(|(other, ..)| other == place));
        // What is wrong with a topic is wrong for every copy that goes there: nobody is tried again for that.
        let mut known: Vec<(&str, Refusal)> = Vec::new();
        let bad: Vec<usize> = bad
            .into_iter()
            .filter(|place| {
                let own = refused.iter().find(|(other, _, error)| other == place && is_of_topic(error));
                let Some((_, topic, error)) = own else { return true };
                if !known.iter().any(|(other, _)| other == topic) {
                    known.push((topic, Trouble::new(&self.with).refuse(topic, error)));
                }
                if let Some((_, refusal)) = known.iter().find(|(other, _)| other == topic) {
                    entries[*place].refused(refusal.clone());
                }
                false
            })
            .collect();
        if bad.len() > 1 {
            let (left, right) = bad.split_at(bad.len() / 2);
            groups.extend([left.to_vec(), right.to_vec()]);
        } else {
            groups.push(bad);
        }
        groups.push(good);
    }

    fn attempt(&mut self, entries: &[Entry], group: &[usize], tags: &[Tag]) -> Attempt {
        let Some(consumer) = self.with.member.consumer() else {
            return Attempt::Away("this member has left its group".to_owned());
        };
        let positions = self.with.member.go(tags);
        let copies: usize = group.iter().map(|place| entries[*place].copies.len()).sum();
        if copies == 0 {
            return match commit::commit(&consumer, &positions) {
                Ok(()) => {
                    fail::point("kafka.after_release");
                    Attempt::Done(vec![Vec::new(); group.len()])
                }
                Err(error) => not_committed(&error, format!("the positions were not committed: {error}")),
            };
        }
        let producer = match self.producer() {
            Ok(producer) => producer,
            Err(error) => {
                return Attempt::Away(format!("no transaction can be begun: {}", client::shown(&error)));
            }
        };
        if let Err(error) = producer.begin_transaction() {
            self.drop_producer();
            return Attempt::Away(format!("no transaction can be begun: {error}"));
        }
        fail::point("kafka.after_begin");
        let reports = Reports::new(copies);
        send(|_| producer, group.iter().flat_map(|place| &entries[*place].copies), &reports, client::ANSWER);
        let answered = reports.wait(DELIVERY, AFTER_FAILURE);
        if answered.iter().any(Result::is_err) {
            self.give_up();
            return self.judge(entries, group, &answered);
        }
        fail::point("kafka.after_delivery");
        let places = by_entry(entries, group, &answered);
        match self.release(&consumer, &positions) {
            Ok(()) => {
                self.pass_on();
                Attempt::Done(places)
            }
            Err(Failed::Abort(error)) => {
                self.give_up();
                let why = format!("a transaction was given up: {error}");
                let lost = consumer.assignment_lost();
                match code_of(&error) {
                    Some(code) if commit::is_changing(code) && !lost => Attempt::Again(why),
                    _ => not_committed(&error, why),
                }
            }
            Err(Failed::Producer(error)) => {
                metrics::aborted(&self.with.flow.flow);
                tracing::warn!(%error, "a transactional producer has failed and is made anew");
                self.find_out(&consumer, &positions, places, &error)
            }
        }
    }

    /// Adds the positions and commits. When that ends, it is known whether it worked, unless the producer failed.
    fn release(&self, consumer: &BaseConsumer<Watch>, positions: &Positions) -> Result<(), Failed> {
        let Some(producer) = &self.producers[self.turn] else {
            return Err(Failed::Producer(KafkaError::Canceled));
        };
        let list = commit::list(positions).map_err(Failed::Abort)?;
        let unknown = KafkaError::ConsumerCommit(RDKafkaErrorCode::UnknownMemberId);
        let Some(metadata) = consumer.group_metadata() else { return Err(Failed::Abort(unknown)) };
        // A member that was thrown out has no name, and without one nobody would stop it.
        if consumer.assignment_lost() {
            return Err(Failed::Abort(unknown));
        }
        step(|| producer.send_offsets_to_transaction(&list, &metadata, STEP), |tries| tries < 2)?;
        fail::point("kafka.before_commit");
        step(|| producer.commit_transaction(STEP), |_| !self.with.member.has_ended())?;
        fail::point("kafka.after_commit");
        Ok(())
    }

    fn give_up(&mut self) {
        metrics::aborted(&self.with.flow.flow);
        let Some(producer) = &self.producers[self.turn] else { return };
        if let Err(Failed::Abort(error) | Failed::Producer(error)) =
            step(|| producer.abort_transaction(STEP), |tries| tries < 4)
        {
            tracing::warn!(%error, "a transaction cannot be given up; its producer is made anew");
            self.drop_producer();
        }
    }

    /// The producer failed while it committed: what is committed says whether that worked. Whoever is asked, nobody is
    /// told before it is known.
    fn find_out(
        &mut self,
        consumer: &BaseConsumer<Watch>,
        positions: &Positions,
        places: Vec<Vec<Place>>,
        error: &KafkaError,
    ) -> Attempt {
        self.drop_producer();
        let about = self.with.member.group.clone();
        let mut pause = PAUSE;
        loop {
            // A new producer of the same name ends what the old one left.
            let known = match self.producer() {
                Ok(_) => commit::is_committed(consumer, positions),
                Err(other) => Err(other),
            };
            let attempt = match known {
                Ok(true) => Attempt::Done(places),
                Ok(false) => Attempt::Away(format!("a transaction failed: {error}")),
                Err(other) if self.with.member.has_ended() => Attempt::Away(format!(
                    "it is not known whether a transaction failed: {}",
                    client::shown(&other)
                )),
                Err(other) => {
                    let why = format!(
                        "`{about}` does not say whether a transaction was committed, and settles nothing until it does: {}",
                        client::shown(&other)
                    );
                    self.with.alarms.raise("transaction_unknown", &about, why);
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(MOST_PAUSE);
                    continue;
                }
            };
            self.with.alarms.clear("transaction_unknown", &about);
            return attempt;
        }
    }

    fn judge(&self, entries: &[Entry], group: &[usize], answered: &[Report]) -> Attempt {
        let trouble = Trouble::new(&self.with);
        let mut rest = answered;
        let mut refused = Vec::new();
        let mut away = None;
        for place in group {
            let entry = &entries[*place];
            let (own, others) = rest.split_at(entry.copies.len());
            rest = others;
            let Some((topic, error)) = commit::failure(entry, own) else { continue };
            let known = refused.iter().any(|(_, other, said)| other == topic && said == error);
            if known || (away.is_none() && trouble.is_refusal(topic, error)) || is_for_good(error) {
                refused.push((*place, topic.to_owned(), error.clone()));
            } else {
                away.get_or_insert_with(|| format!("a copy for `{topic}` was not acknowledged: {error}"));
            }
        }
        // What an earlier transaction left to be thrown away can take what the next one has sent with it.
        let purged = answered.iter().filter_map(|report| report.as_ref().err()).any(|error| {
            let code = error.rdkafka_error_code();
            matches!(code, Some(RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight))
        });
        match away {
            Some(why) if refused.is_empty() && purged => Attempt::Again(why),
            Some(why) if refused.is_empty() => Attempt::Away(why),
            _ => Attempt::Refused(refused),
        }
    }
}

/// Whether a failed commit is about the position of one partition, so that the others can be committed without it.
fn not_committed(error: &KafkaError, why: String) -> Attempt {
    match code_of(error) {
        Some(code) if commit::is_of_position(code) => Attempt::Position(why),
        _ => Attempt::Away(why),
    }
}

/// Whether a topic as a whole does not take copies, rather than one record.
fn is_of_topic(error: &KafkaError) -> bool {
    use RDKafkaErrorCode as Code;
    error.rdkafka_error_code().is_some_and(|code| {
        client::is_missing(code)
            || matches!(
                code,
                Code::MessageTimedOut
                    | Code::InvalidTopic
                    | Code::TopicAuthorizationFailed
                    | Code::ClusterAuthorizationFailed
            )
    })
}

fn is_for_good(error: &KafkaError) -> bool {
    error.rdkafka_error_code().is_some_and(client::is_for_good)
}

fn code_of(error: &KafkaError) -> Option<RDKafkaErrorCode> {
    match error {
        KafkaError::Transaction(error) => Some(error.code()),
        other => other.rdkafka_error_code(),
    }
}

/// One step of a transaction, again while it may still work and is worth it.
fn step(mut ask: impl FnMut() -> KafkaResult<()>, again: impl Fn(u32) -> bool) -> Result<(), Failed> {
    let mut tries = 0;
    loop {
        let Err(error) = ask() else { return Ok(()) };
        tries += 1;
        match &error {
            KafkaError::Transaction(said) if said.is_fatal() => return Err(Failed::Producer(error)),
            KafkaError::Transaction(said) if said.txn_requires_abort() => return Err(Failed::Abort(error)),
            KafkaError::Transaction(said) if said.is_retriable() && again(tries) => {
                std::thread::sleep(Duration::from_millis(2));
            }
            KafkaError::Transaction(said) if said.is_retriable() => return Err(Failed::Abort(error)),
            _ => return Err(Failed::Producer(error)),
        }
    }
}

fn by_entry(entries: &[Entry], group: &[usize], answered: &[Report]) -> Vec<Vec<Place>> {
    let mut places = answered.iter().filter_map(|report| report.as_ref().ok().copied());
    group.iter().map(|place| places.by_ref().take(entries[*place].copies.len()).collect()).collect()
}
