//! The thread of a member: polls, answers rebalances, hands records on.

mod anew;
mod group;
mod nowhere;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rdkafka::Message as _;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::TopicPartitionList;
use redrive_core::Timestamp;
use redrive_engine::adapter::Alarms;
use redrive_engine::port::{Clock, Delivery, PortError};

use super::member::{Member, Reach};
use super::watch::Watch;
use crate::client;
use crate::copy::Copies;
use crate::delay::Window;
use crate::look::Look;
use crate::metrics;
use crate::options::KafkaFlow;
use crate::record::{Carver, Spot};
use crate::settle::Settler;
use group::Underway;

/// How long a poll waits at most: also how long closing and giving up may go unnoticed.
const POLL: Duration = Duration::from_millis(100);
/// How many records are noted at once.
const BATCH: usize = 500;
/// How long polling waits for the flow to take something before a partition is paused. Pausing throws away what was
/// fetched.
const STALL: Duration = Duration::from_millis(500);
/// How long one question about committed offsets may take; polling stands still meanwhile.
const COMMITTED: Duration = Duration::from_secs(2);
/// How often the lag is told.
const TOLD: Duration = Duration::from_secs(1);
/// How many bytes of records may be on their way to another topic.
const MOVING: usize = 16 << 20;

/// What a reader reads with.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The flow's settings.
    pub(crate) flow: KafkaFlow,
    /// What is shared with the flow.
    pub(crate) member: Arc<Member>,
    /// What ends records that are moved on.
    pub(crate) settler: Arc<Settler>,
    /// Decides about waiting records.
    pub(crate) copies: Arc<Copies>,
    /// What people should know of.
    pub(crate) alarms: Arc<Alarms>,
    /// Looks at what other groups have committed.
    pub(crate) look: Arc<Look>,
    /// Says when something is due.
    pub(crate) clock: Arc<dyn Clock>,
}

/// A record that waits for its time.
#[derive(Debug, Clone)]
pub(crate) struct Waits {
    /// What is handed out, or moved on.
    pub(crate) delivery: Delivery,
    /// When it was appended to its topic.
    pub(crate) appended: Timestamp,
}

/// A member's thread.
pub(crate) struct Reader {
    with: Reading,
    consumer: Arc<BaseConsumer<Watch>>,
    carver: Carver,
    spots: Vec<Spot>,
    paused: HashSet<u32>,
    /// Streams that hold their share of what can be handed out.
    full: HashSet<u32>,
    /// Streams that hold their share of what waits.
    ahead: HashSet<u32>,
    /// Streams that are to be read from their beginning, which nobody has found yet.
    anew: BTreeSet<u32>,
    /// When a beginning was looked for last, in vain.
    sought: Option<Instant>,
    /// Streams that the client does not read, since nobody says where: each with its place.
    nowhere: BTreeMap<u32, String>,
    underway: Option<Underway>,
    waiting: Window<Waits>,
    moving: Arc<AtomicUsize>,
    closed: bool,
    /// When the lag was told last.
    told: Instant,
}

impl Reader {
    pub(crate) fn new(with: Reading, consumer: Arc<BaseConsumer<Watch>>) -> Self {
        Self {
            waiting: Window::new(with.flow.window),
            carver: Carver::new(with.copies.rules(), &with.flow),
            with,
            consumer,
            spots: Vec::new(),
            paused: HashSet::new(),
            full: HashSet::new(),
            ahead: HashSet::new(),
            anew: BTreeSet::new(),
            sought: None,
            nowhere: BTreeMap::new(),
            underway: None,
            moving: Arc::default(),
            closed: false,
            told: Instant::now(),
        }
    }

    /// Reads until the member is closed and nothing is in hand, then leaves the group.
    pub(crate) fn run(mut self) {
        while !self.with.member.may_leave() {
            self.answer_group();
            self.go_to_beginnings();
            self.look_at_waiting();
            self.hold_back();
            self.tell_lag();
            self.read();
        }
        self.with.settler.end();
        self.is_somewhere_again();
        self.consumer.context().leave();
        self.consumer.unsubscribe();
        self.with.member.leave();
        // The last one to hold the client waits until the group knows.
        drop(self.consumer);
    }

    /// Tells how far each partition is behind, and how old what waits is.
    fn tell_lag(&mut self) {
        if self.told.elapsed() < TOLD {
            return;
        }
        self.told = Instant::now();
        for Reach { topic, partition, next, open } in self.with.member.reach() {
            let Some(fetched) = self.consumer.context().fetched(&topic, partition) else { continue };
            // What lies between the last record and the next one to fetch is no record.
            let read = if fetched.queued == 0 { fetched.next.max(next) } else { next };
            let lag = fetched.end.saturating_sub(read).max(0).cast_unsigned() + open as u64;
            metrics::lag(&self.with.flow.flow, &topic, partition, lag);
        }
        if self.with.member.waits {
            metrics::oldest_waiting(&self.with.flow.flow, self.oldest_waiting());
        }
    }

    /// How long ago the oldest message that waits failed first, as far as they are read ahead.
    fn oldest_waiting(&self) -> Duration {
        let failed = |one: &Waits| one.delivery.trail.first_failure_at.unwrap_or(one.appended);
        let oldest = self.waiting.records().map(failed).min();
        oldest.map_or(Duration::ZERO, |at| self.now().since(at))
    }

    fn now(&self) -> Timestamp {
        self.with.clock.now()
    }

    /// Polls once, and takes what is there already.
    fn read(&mut self) {
        let mut read: Vec<Delivery> = Vec::new();
        let mut appended: Vec<((u32, u64), Timestamp)> = Vec::new();
        let mut wait = self.patience();
        let now = self.now();
        let consumer = Arc::clone(&self.consumer);
        while read.len() < BATCH {
            match consumer.poll(wait) {
                Some(Ok(record)) => {
                    if let Some((delivery, at)) = self.carve(&record, now) {
                        if self.with.member.waits {
                            appended.push(((delivery.tag.stream, delivery.tag.number), at));
                        }
                        read.push(delivery);
                    }
                }
                Some(Err(error)) => self.trouble(&error),
                None => break,
            }
            wait = Duration::ZERO;
        }
        if let Some(trouble) = self.consumer.context().trouble() {
            tracing::debug!(group = self.with.member.group, trouble, "the client is in trouble");
        }
        let group = &self.with.member.group;
        if !read.is_empty() {
            self.with.alarms.clear("source_missing", group);
            self.with.alarms.clear("cannot_read", group);
            self.take_in(read, appended);
        }
    }

    /// Whether as much is on its way as may be.
    fn is_busy_moving(&self) -> bool {
        self.moving.load(Ordering::Relaxed) >= MOVING
    }

    /// How long a poll may wait.
    fn patience(&self) -> Duration {
        let until_due = self.waiting.next_due().map(|due| due.since(self.now()));
        if self.is_busy_moving() { Duration::from_millis(5) } else { until_due.unwrap_or(POLL).min(POLL) }
    }

    fn carve(&mut self, record: &BorrowedMessage<'_>, now: Timestamp) -> Option<(Delivery, Timestamp)> {
        let (topic, partition) = (record.topic(), record.partition());
        let spot = self.spots.iter().find(|spot| spot.partition == partition && *spot.topic == *topic)?;
        let appended = record.timestamp().to_millis().map_or(now, Timestamp::from_millis);
        Some((self.carver.delivery(record, spot, now), appended))
    }

    /// Notes what was read; of what waits, `appended` says when it was written, in the same order.
    fn take_in(&mut self, mut read: Vec<Delivery>, appended: Vec<((u32, u64), Timestamp)>) {
        let back = self.with.member.take_in(&mut read);
        let mut times = appended.into_iter();
        for delivery in read {
            let key = (delivery.tag.stream, delivery.tag.number);
            let at = times.find(|(other, _)| *other == key).map_or(delivery.ready_at, |(_, at)| at);
            self.sort(Waits { delivery, appended: at });
        }
        for stream in back {
            self.begin_anew(stream);
        }
    }

    fn trouble(&mut self, error: &KafkaError) {
        let group = &self.with.member.group;
        match error {
            KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset) => self.is_nowhere(),
            KafkaError::MessageConsumptionFatal(code) => {
                tracing::error!(group, %code, "the member has failed for good");
                let text = format!("reading as `{group}` has failed for good, a restart is needed: {code}");
                self.with.alarms.raise("reader_failed", group, text.clone());
                self.with.member.report(PortError::Broken(text));
            }
            KafkaError::MessageConsumption(code) if client::is_missing(*code) => {
                let text =
                    format!("a topic that `{group}` reads is not there; it is read once it is: {code}");
                self.with.alarms.raise("source_missing", group, text);
            }
            KafkaError::MessageConsumption(
                code @ (RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::Authentication),
            ) => self.with.member.report(PortError::Unavailable(format!("Kafka does not answer: {code}"))),
            KafkaError::MessageConsumption(
                code @ (RDKafkaErrorCode::NotImplemented
                | RDKafkaErrorCode::BadCompression
                | RDKafkaErrorCode::BadMessage
                | RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::GroupAuthorizationFailed),
            ) => {
                let text = format!("`{group}` cannot read, and reads nothing past it: {code}");
                self.with.alarms.raise("cannot_read", group, text);
            }
            other => tracing::debug!(group, error = %other, "a poll failed; the next one may not"),
        }
    }
}

/// Back-pressure.
impl Reader {
    /// Pauses what holds its share, and reads on what does not any more.
    fn hold_back(&mut self) {
        if self.with.member.is_closed() {
            if !self.closed {
                self.closed = true;
                let all: Vec<u32> = self.spots.iter().map(|spot| spot.stream).collect();
                self.pause(&all);
            }
            return;
        }
        let mut full = self.with.member.wait_for_room(Duration::ZERO);
        // A flow that is quick makes room in a moment. What waits must not wait for that.
        if !self.with.member.waits && full.iter().any(|stream| !self.full.contains(stream)) {
            full = self.with.member.wait_for_room(STALL);
        }
        self.full.retain(|stream| !self.with.member.is_low(*stream));
        self.full.extend(full);
        if self.with.member.waits {
            let steering = self.waiting.steer(self.now());
            self.ahead.extend(steering.pause);
            self.ahead.retain(|stream| !steering.resume.contains(stream));
            metrics::window_full(&self.with.flow.flow, self.waiting.is_full());
        }
        let wanted: HashSet<u32> = self.full.union(&self.ahead).copied().collect();
        let pause: Vec<u32> = wanted.difference(&self.paused).copied().collect();
        let resume: Vec<u32> = self.paused.difference(&wanted).copied().collect();
        self.pause(&pause);
        self.resume(&resume);
    }

    fn list(&self, streams: &[u32]) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for spot in self.spots.iter().filter(|spot| streams.contains(&spot.stream)) {
            list.add_partition(&spot.topic, spot.partition);
        }
        list
    }

    fn pause(&mut self, streams: &[u32]) {
        if streams.is_empty() {
            return;
        }
        match self.consumer.pause(&self.list(streams)) {
            Ok(()) => self.paused.extend(streams),
            Err(error) => tracing::debug!(%error, "cannot pause"),
        }
    }

    fn resume(&mut self, streams: &[u32]) {
        if streams.is_empty() {
            return;
        }
        match self.consumer.resume(&self.list(streams)) {
            Ok(()) => self.paused.retain(|stream| !streams.contains(stream)),
            Err(error) => tracing::debug!(%error, "cannot read on"),
        }
    }
}
