//! The engine's port to Kafka, for one flow.

mod copies;
mod publish;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use redrive_core::Message;
use redrive_engine::adapter::{Alarms, Rules};
use redrive_engine::port::{
    Broker, BrokerAlarm, Capabilities, Clock, Delivery, NewMessage, Outcome, PortError, Published, QueueInfo,
    Refusal, Resolved, Settled, Settlement, Shelves, Source, SourceRange, SourceRef, Subscription,
    SystemClock, Tag, Topology,
};
use tokio::sync::{Notify, mpsc};

use self::copies::is_elsewhere;
use crate::client;
use crate::copy::{Copies, Copy};
use crate::depth;
use crate::facts::TopicFacts;
use crate::look::Look;
use crate::options::{KafkaFlow, Role};
use crate::outbox::Outbox;
use crate::reader::{KafkaSource, Member, Reader, Reading, Ties, Watch};
use crate::record::KIND;
use crate::settle::{Answers, Entry, Settler, Settling, gone};
use crate::topics::Topics;
use crate::{aliases, alone, bodies, circles, earlier, passed, replay, resolved, shelves, topology};

/// The first stream of what waits; those of the source count from 0.
const WAITING_STREAMS: u32 = 1 << 30;
/// How long the end of a broker waits until its members have left their groups.
const FAREWELL: Duration = Duration::from_secs(5);

/// How often topics are looked up again that are too small for a copy.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A member of a group in this process.
#[derive(Debug)]
struct Seat {
    member: Arc<Member>,
    settler: Arc<Settler>,
    thread: JoinHandle<()>,
}

/// Kafka under one flow.
pub struct KafkaBroker {
    flow: KafkaFlow,
    clock: Arc<dyn Clock>,
    facts: Arc<TopicFacts>,
    look: Arc<Look>,
    rules: Arc<Rules>,
    topics: Arc<Topics>,
    copies: Arc<Copies>,
    alarms: Arc<Alarms>,
    outbox: Arc<Outbox>,
    seats: Mutex<Vec<Seat>>,
    epochs: Arc<AtomicU32>,
    /// Whether the last write was taken.
    writes: AtomicBool,
    /// When topics were looked up again because one was too small for a copy.
    looked: Mutex<Option<Instant>>,
}

impl fmt::Debug for KafkaBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaBroker").field("flow", &self.flow).finish_non_exhaustive()
    }
}

/// Runs what blocks where it may.
async fn blocking<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> Result<T, KafkaError> + Send + 'static,
) -> Result<T, PortError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| client::away(doing, &error)),
        Err(error) => Err(PortError::Unavailable(format!("{doing}: {error}"))),
    }
}

impl KafkaBroker {
    /// Kafka under this flow. Nothing is asked of it yet.
    pub fn new(flow: KafkaFlow) -> Result<Self, PortError> {
        Self::with_clock(flow, Arc::new(SystemClock::default()))
    }

    /// The same with another clock than the system's, which its records are stamped by.
    pub fn with_clock(flow: KafkaFlow, clock: Arc<dyn Clock>) -> Result<Self, PortError> {
        aliases::refuse_two_values(&flow.client.options)?;
        client::refuse_two_producers(&flow)?;
        let facts: Arc<TopicFacts> = Arc::default();
        let rules: Arc<Rules> = Arc::default();
        let wrong = |error: KafkaError| {
            Refusal::Invalid(format!("these options for Kafka do not work: {}", client::shown(&error)))
        };
        let topics = Topics::new(&flow.client, Arc::clone(&facts)).map_err(wrong)?;
        let look = Look::new(&flow, Arc::clone(&rules));
        let copies = Copies::new(&flow, Arc::clone(&facts))
            .with_rules(Arc::clone(&rules))
            .with_delays(Arc::clone(look.delays()));
        Ok(Self {
            copies: Arc::new(copies),
            topics: Arc::new(topics),
            outbox: Arc::new(Outbox::new(&flow)),
            clock,
            alarms: Arc::default(),
            seats: Mutex::default(),
            epochs: Arc::new(AtomicU32::new(1)),
            writes: AtomicBool::new(true),
            looked: Mutex::default(),
            look,
            rules,
            facts,
            flow,
        })
    }

    fn take_seats(&self) -> Vec<Seat> {
        std::mem::take(&mut *self.seats.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The groups that this process has a part in: each with whether it reads what waits, and its topics.
    fn groups(&self) -> Vec<(String, bool, Vec<String>)> {
        let flow = &self.flow;
        let delays = self.copies.delays();
        let delays: Vec<String> = delays
            .topics()
            .into_iter()
            .map(|(topic, _)| topic)
            .chain(delays.earlier())
            .map(|topic| topic.to_string())
            .collect();
        let mut groups = Vec::new();
        if matches!(flow.role, Role::All | Role::Main) {
            groups.push((flow.groups.main.clone(), false, flow.topics.clone()));
        }
        let waiting = match flow.role {
            Role::All | Role::Retry => Some(&flow.groups.retry),
            Role::Delay => Some(&flow.groups.delay),
            Role::Main | Role::Ledger => None,
        };
        if let Some(group) = waiting.filter(|_| !delays.is_empty()) {
            groups.push((group.clone(), true, delays));
        }
        groups
    }

    /// Every topic that copies of this flow go to.
    fn targets(&self) -> Vec<Arc<str>> {
        let mut targets: BTreeSet<Arc<str>> = BTreeSet::new();
        targets.insert(self.flow.dead_letter.topic.as_str().into());
        targets.insert(crate::delay::names::parking(&self.flow).into());
        targets.extend(self.copies.delays().topics().into_iter().map(|(topic, _)| topic));
        targets.into_iter().collect()
    }

    fn sit_down(&self, group: (String, bool, Vec<String>), ties: Ties) -> Result<Seat, PortError> {
        let (group, waits, topics) = group;
        let wrong = |error: KafkaError| {
            PortError::from(Refusal::Invalid(format!("cannot read as `{group}`: {}", client::shown(&error))))
        };
        let config = client::consumer(&self.flow, &group);
        let consumer: BaseConsumer<Watch> = config.create_with_context(Watch::default()).map_err(wrong)?;
        let consumer = Arc::new(consumer);
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        consumer.subscribe(&names).map_err(wrong)?;
        let member = Arc::new(Member::new(&group, waits, Arc::clone(&consumer), ties));
        let settling = Settling {
            flow: self.flow.clone(),
            member: Arc::clone(&member),
            alarms: Arc::clone(&self.alarms),
            topics: Arc::clone(&self.topics),
        };
        let no_thread =
            |error: std::io::Error| PortError::Unavailable(format!("cannot start a thread: {error}"));
        let settler = Arc::new(Settler::start(settling).map_err(no_thread)?);
        let reading = Reading {
            flow: self.flow.clone(),
            member: Arc::clone(&member),
            settler: Arc::clone(&settler),
            copies: Arc::clone(&self.copies),
            alarms: Arc::clone(&self.alarms),
            clock: Arc::clone(&self.clock),
            look: Arc::clone(&self.look),
        };
        let reader = Reader::new(reading, consumer);
        let thread = std::thread::Builder::new()
            .name(format!("read {group}"))
            .spawn(move || reader.run())
            .map_err(no_thread)?;
        Ok(Seat { member, settler, thread })
    }

    /// Who settles a delivery, and gives it back.
    fn seat(&self, tag: Tag) -> Option<(Arc<Member>, Arc<Settler>)> {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = tag.stream >= WAITING_STREAMS;
        let seat = seats.iter().find(|seat| seat.member.waits == waits)?;
        Some((Arc::clone(&seat.member), Arc::clone(&seat.settler)))
    }
}

#[async_trait]
impl Broker for KafkaBroker {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: KIND,
            exact_delay: true,
            null_body: true,
            ordered: true,
            records_in_settle: false,
            waiting_is_reachable: false,
            unique_ids: false,
            lanes: false,
            partitions: true,
        }
    }

    async fn plan(&self, subscription: &Subscription) -> Result<Vec<Topology>, PortError> {
        circles::refuse_circles(&self.flow, None)?;
        self.rules.set(&subscription.headers);
        topology::plan(&self.look, &self.facts).await
    }

    async fn apply(&self, topology: &[Topology]) -> Result<(), PortError> {
        topology::apply(&self.look, &self.facts, topology).await
    }

    async fn subscribe(&self, subscription: &Subscription) -> Result<Box<dyn Source>, PortError> {
        circles::refuse_circles(&self.flow, None)?;
        self.rules.set(&subscription.headers);
        let before = self.take_seats();
        let options = self.flow.client.clone();
        let (topics, targets) = (Arc::clone(&self.topics), self.targets());
        let cluster = blocking("cannot begin to read", move || {
            for seat in before {
                seat.member.end();
                let _ = seat.thread.join();
            }
            topics.look(&targets)?;
            client::cluster(&options)
        })
        .await?;
        let metadata_room = cluster.metadata_room;
        if self.flow.alone {
            alone::refuse_others(&self.look).await?;
        }
        earlier::read_also(&self.look, &cluster.topics).await?;
        let arrived = Arc::new(Notify::new());
        let (tell, revoked) = mpsc::unbounded_channel();
        let mut members: Vec<Arc<Member>> = Vec::new();
        let mut seats = Vec::new();
        for group in self.groups() {
            let ties = Ties {
                arrived: Arc::clone(&arrived),
                revoked: tell.clone(),
                epochs: Arc::clone(&self.epochs),
                first_stream: if group.1 { WAITING_STREAMS } else { 0 },
                metadata_room,
            };
            let seat = match self.sit_down(group, ties) {
                Ok(seat) => seat,
                Err(error) => {
                    for member in &members {
                        member.end();
                    }
                    return Err(error);
                }
            };
            members.push(Arc::clone(&seat.member));
            seats.push(seat);
        }
        *self.seats.lock().unwrap_or_else(PoisonError::into_inner) = seats;
        Ok(Box::new(KafkaSource::new(Arc::clone(&self.look), members, arrived, revoked)))
    }

    async fn settle(&self, batch: &[Settlement]) -> Vec<Result<Settled, PortError>> {
        let mut answers: Vec<Option<Result<Settled, PortError>>> = vec![None; batch.len()];
        let mut apart: (Vec<usize>, Vec<(Vec<Copy>, bool)>) = Default::default();
        let mut read: HashMap<bool, (Vec<usize>, Vec<Entry>)> = HashMap::new();
        let mut back: HashMap<bool, (Vec<usize>, Vec<&Delivery>)> = HashMap::new();
        for (place, (settlement, copies)) in batch.iter().zip(self.copies(batch).await).enumerate() {
            let tag = settlement.delivery.tag;
            let copies = match copies {
                Ok(copies) => copies,
                Err(error) => {
                    answers[place] = Some(Err(error));
                    continue;
                }
            };
            if tag == Tag::APART {
                apart.0.push(place);
                apart.1.push((copies, is_elsewhere(&settlement.outcome)));
            } else if settlement.outcome == Outcome::Return {
                let of = back.entry(tag.stream >= WAITING_STREAMS).or_default();
                of.0.push(place);
                of.1.push(&settlement.delivery);
            } else {
                let of = read.entry(tag.stream >= WAITING_STREAMS).or_default();
                of.0.push(place);
                of.1.push(Entry::new(tag, copies, is_elsewhere(&settlement.outcome)));
            }
        }
        for (places, deliveries) in back.into_values() {
            let seat = deliveries.first().and_then(|first| self.seat(first.tag));
            let given = seat.map_or_else(Vec::new, |(member, _)| member.give_back(&deliveries));
            for (at, place) in places.into_iter().enumerate() {
                let is_back = given.get(at).copied().unwrap_or(false);
                answers[place] =
                    Some(if is_back { Ok(Settled::default()) } else { Err(gone(deliveries[at].tag)) });
            }
        }
        let (main, waiting) =
            (read.remove(&false).unwrap_or_default(), read.remove(&true).unwrap_or_default());
        let settle = async |entries: Vec<Entry>| -> Answers {
            let Some(first) = entries.first().map(|entry| entry.tag) else { return Vec::new() };
            match self.seat(first) {
                Some((_, settler)) => settler.settle(entries).await,
                None => entries.iter().map(|entry| Err(gone(entry.tag))).collect(),
            }
        };
        let (mains, waitings, aparts) =
            tokio::join!(settle(main.1), settle(waiting.1), self.settle_apart(apart.1));
        for (places, given) in [(main.0, mains), (waiting.0, waitings), (apart.0, aparts)] {
            for (place, answer) in places.into_iter().zip(given) {
                answers[place] = Some(answer);
            }
        }
        let missing = || Err(PortError::Unavailable("the settler did not come to it".to_owned()));
        answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect()
    }

    fn leaves_body(&self, settlement: &Settlement) -> bool {
        self.copies.leaves_body(settlement)
    }

    async fn publish(&self, target: &str, messages: Vec<NewMessage>) -> Result<Vec<Published>, PortError> {
        self.publish_to(target, messages).await
    }

    async fn ready(&self) -> Result<(), PortError> {
        if self.writes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let topics = Arc::clone(&self.topics);
        let targets = self.targets();
        blocking("Kafka does not answer", move || topics.look(&targets)).await?;
        self.writes.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn queues(&self) -> Result<Vec<QueueInfo>, PortError> {
        depth::queues(&self.look).await
    }

    async fn alone(&self) -> Result<(), PortError> {
        alone::refuse_others(&self.look).await
    }

    fn gate(&self, stream: u32, closed: bool) {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = stream >= WAITING_STREAMS;
        for seat in seats.iter().filter(|seat| seat.member.waits == waits) {
            seat.member.gate(stream, closed);
        }
    }

    fn alarms(&self) -> Vec<BrokerAlarm> {
        let mut all = self.alarms.all();
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let standing: usize = seats.iter().map(|seat| seat.member.standing()).sum();
        if standing > 0 {
            let why = format!(
                "{standing} partitions stand until their oldest message is settled: more finished ones behind it \
                 cannot be written down in a commit"
            );
            all.push(BrokerAlarm { name: "position_full", why });
        }
        all
    }

    async fn passed(&self, copies: &[SourceRef]) -> Result<Vec<bool>, PortError> {
        passed::passed(&self.look, copies).await
    }

    async fn shelves(
        &self,
        subscription: &Subscription,
        from: Option<&str>,
    ) -> Result<Box<dyn Shelves>, PortError> {
        self.rules.set(&subscription.headers);
        shelves::open(&self.look, from).await
    }

    async fn reread(
        &self,
        subscription: &Subscription,
        range: &SourceRange,
    ) -> Result<Box<dyn Shelves>, PortError> {
        self.rules.set(&subscription.headers);
        replay::reread(&self.look, range).await
    }

    async fn fetch(&self, place: &SourceRef) -> Result<Option<Message>, PortError> {
        Ok(self.fetch_all(std::slice::from_ref(place)).await?.pop().flatten())
    }

    async fn fetch_all(&self, places: &[SourceRef]) -> Result<Vec<Option<Message>>, PortError> {
        bodies::fetch_all(&self.look, places).await
    }

    async fn expiring(&self, places: &[SourceRef]) -> Result<Vec<Option<i64>>, PortError> {
        bodies::expiring(&self.look, places, self.clock.now()).await
    }

    async fn keep_resolved(&self, resolved: &[Resolved]) -> Result<(), PortError> {
        resolved::keep(&self.look, resolved).await
    }

    async fn resolved(&self, _subscription: &Subscription) -> Result<Vec<Resolved>, PortError> {
        resolved::read(&self.look).await
    }
}

impl Drop for KafkaBroker {
    fn drop(&mut self) {
        let seats = self.take_seats();
        for seat in &seats {
            seat.member.end();
        }
        // The group should know at once: who comes next would have to wait until it has noticed.
        let end = Instant::now() + FAREWELL;
        while seats.iter().any(|seat| !seat.thread.is_finished()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
