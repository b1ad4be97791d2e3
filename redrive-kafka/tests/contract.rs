//! The contract on a real Kafka, with its ledger in a file.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication, TopicResult};
use rdkafka::client::DefaultClientContext;
use rdkafka::types::RDKafkaErrorCode;
use redrive_engine::port::{Broker, Capabilities, Clock as _, Depth, Subscription};
use redrive_engine::{Apart, ApartOptions, FlowSpec};
use redrive_kafka::{DelayMode, KafkaBroker, KafkaFlow};
use redrive_sqlite::{Options, Store};
use testkit::Services;
use testkit::clock::TestClock;
use testkit::contract::{Fixture, Ports, eventually};
use testkit::faulty::{Deaf, Faulty, FaultyLedger};
use testkit::kafka::Kafka;
use testkit::services::Server;

/// The topics that scenarios write to without a flow that would make them.
const TOPICS: [&str; 4] = ["orders", "elsewhere", "rejected", "mail"];

struct OnKafka {
    server: Server,
    _services: Services,
    /// What the names of this test's topics begin with.
    prefix: String,
    folder: tempfile::TempDir,
    /// The number of the ledger's file: another one when it was lost.
    file: Mutex<u32>,
    deaf: Arc<Deaf>,
    /// The same for the ledger's file.
    deaf_file: Arc<Deaf>,
    apart: Mutex<Weak<Apart>>,
    store: Mutex<Weak<Store>>,
    /// Whether the ledger leaves bodies to Kafka.
    by_pointer: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The topics of a test go with it: a broker with thousands of them is slow for all others.
impl Drop for OnKafka {
    fn drop(&mut self) {
        let (kafka, prefix) = (Kafka::at(self.server.address()), self.prefix.clone());
        // On a thread of its own: a test's runtime may be this one.
        let _ = std::thread::spawn(move || kafka.delete_all(&prefix)).join();
    }
}

impl OnKafka {
    fn admin(&self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new()
            .set("bootstrap.servers", self.server.address())
            .set("broker.address.family", "v4")
            .create()
            .expect("an admin")
    }

    fn new(by_pointer: bool) -> Option<Self> {
        let services = Services::connect();
        let server = services.kafka()?;
        Some(Self {
            server,
            _services: services,
            prefix: uuid::Uuid::now_v7().simple().to_string(),
            folder: tempfile::tempdir().expect("a folder"),
            file: Mutex::new(0),
            deaf: Arc::default(),
            deaf_file: Arc::default(),
            apart: Mutex::default(),
            store: Mutex::default(),
            by_pointer,
        })
    }

    fn broker(&self, flow: &str, source: &str, store: &Arc<Store>, clock: &Arc<TestClock>) -> Arc<Apart> {
        let name = self.address(flow);
        let mut kafka = KafkaFlow::new(&name, self.server.address(), source, &name);
        // One level: many topics in every test would be the broker's work more than ours.
        kafka.longest_delay = Duration::from_secs(4);
        kafka.ledger = true;
        kafka.instance = "contract".to_owned();
        let options = &mut kafka.client.options;
        options.insert("topic.metadata.refresh.interval.ms".to_owned(), "1000".to_owned());
        let broker = KafkaBroker::with_clock(kafka, clock.clone()).expect("a broker");
        let outer = Arc::new(Faulty::new(Arc::new(broker), Arc::clone(&self.deaf)));
        let options = ApartOptions {
            every: self.tick(),
            overdue: Duration::from_secs(5),
            by_pointer: self.by_pointer,
            ..ApartOptions::default()
        };
        let home = Arc::new(Faulty::new(Arc::clone(store) as _, Arc::clone(&self.deaf_file)));
        Arc::new(Apart::new(outer, home, self.ledger(store), flow, clock.clone(), options))
    }

    fn ledger(&self, store: &Arc<Store>) -> Arc<FaultyLedger> {
        Arc::new(FaultyLedger::new(Arc::clone(store) as _, Arc::clone(&self.deaf_file)))
    }

    async fn ports(&self, clock: Arc<TestClock>) -> Ports {
        // Whoever still tells the ledger something ends with that.
        let store = eventually(self, "the ledger's file", || async {
            let options = Options { clock: clock.clone(), ..Options::default() };
            let file = self.folder.path().join(format!("{}.db", lock(&self.file)));
            Store::open(file, options).map_err(|error| error.to_string())
        })
        .await;
        let store = Arc::new(store);
        let apart = self.broker("orders", &self.address("orders"), &store, &clock);
        *lock(&self.apart) = Arc::downgrade(&apart);
        *lock(&self.store) = Arc::downgrade(&store);
        Ports { broker: apart, ledger: self.ledger(&store), clock }
    }

    /// Ends what is open. Leaving a group takes a moment, and waits for it.
    async fn close(&self, ports: Ports) -> Arc<TestClock> {
        let clock = ports.clock.clone();
        tokio::task::spawn_blocking(move || drop(ports)).await.expect("closed");
        clock
    }
}

#[async_trait]
impl Fixture for OnKafka {
    fn capabilities(&self) -> Capabilities {
        let flow = KafkaFlow::new("orders", "127.0.0.1:1", "orders", "orders");
        let kafka = KafkaBroker::new(flow).expect("a broker").capabilities();
        Capabilities { records_in_settle: true, waiting_is_reachable: true, lanes: true, ..kafka }
    }

    fn tick(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// A broker that other tests keep busy may take its time.
    fn patience(&self) -> Duration {
        Duration::from_secs(180)
    }

    async fn open(&self) -> Ports {
        let admin = self.admin();
        let names: Vec<String> = TOPICS.iter().map(|name| self.address(name)).collect();
        let topics: Vec<NewTopic<'_>> = names
            .iter()
            .map(|name| {
                NewTopic::new(name, 1, TopicReplication::Fixed(1)).set("max.message.bytes", "20000000")
            })
            .collect();
        let patience = Some(Duration::from_secs(60));
        let options = AdminOptions::new().operation_timeout(patience).request_timeout(patience);
        eventually(self, "topics", || async {
            let made = admin.create_topics(&topics, &options).await.map_err(|error| error.to_string())?;
            let there =
                |one: &TopicResult| matches!(one, Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)));
            if !made.iter().all(there) {
                return Err(format!("{made:?}"));
            }
            for name in &names {
                let found = admin.inner().fetch_metadata(Some(name), Duration::from_secs(10));
                let found = found.map_err(|error| error.to_string())?;
                if found.topics().first().is_none_or(|topic| topic.partitions().is_empty()) {
                    return Err(format!("no {name}"));
                }
            }
            Ok(())
        })
        .await;
        // Kafka stamps records by the time of the world.
        let clock = Arc::new(TestClock::default());
        let world = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
        let begins = Duration::from_millis(clock.now().as_millis().cast_unsigned());
        clock.forward(world.saturating_sub(begins));
        clock.back(begins.saturating_sub(world));
        let ports = self.ports(clock).await;
        let subscription = Subscription::new("orders", self.address("orders"));
        let needed = ports.broker.plan(&subscription).await.expect("a plan");
        ports.broker.apply(&needed).await.expect("topics of the flow");
        ports
    }

    async fn reopen(&self, ports: Ports) -> Ports {
        let clock = self.close(ports).await;
        self.ports(clock).await
    }

    fn address(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    fn carries(&self, header: &str) -> bool {
        ["message-id", "content-type"].contains(&header)
    }

    async fn depth(&self, ports: &Ports, address: &str) -> Depth {
        let queues = if TOPICS[1..].iter().any(|topic| self.address(topic) == address) {
            // No flow of the scenario reads it: all that lies there counts.
            let mut flow = KafkaFlow::new("nobody", self.server.address(), address, "nobody");
            flow.delay = DelayMode::Ledger;
            let broker = KafkaBroker::new(flow).expect("a broker");
            let queues = broker.queues().await.expect("queues");
            tokio::task::spawn_blocking(move || drop(broker)).await.expect("closed");
            queues
        } else {
            ports.broker.queues().await.expect("queues")
        };
        let of_flow = self.address("orders");
        let ready = queues.iter().filter(|queue| queue.name == address).map(|queue| queue.depth.ready).sum();
        // What waits lies in topics of its own.
        let waits = |name: &str| name == address || (address == of_flow && name.starts_with(&of_flow));
        let waiting = queues.iter().filter(|queue| waits(&queue.name)).map(|queue| queue.depth.waiting).sum();
        Depth { ready, waiting }
    }

    fn broker_for(&self, ports: &Ports, spec: &FlowSpec) -> Arc<dyn Broker> {
        if *spec.name == *"orders" {
            return Arc::clone(&ports.broker);
        }
        let store = lock(&self.store).upgrade().expect("an open store");
        self.broker(&spec.name, &spec.source, &store, &ports.clock)
    }

    fn apart(&self, _ports: &Ports) -> Option<Arc<Apart>> {
        lock(&self.apart).upgrade()
    }

    async fn lose_ledger(&self, ports: Ports) -> Option<Ports> {
        let clock = self.close(ports).await;
        *lock(&self.file) += 1;
        Some(self.ports(clock).await)
    }

    fn ledger_away(&self, away: bool) -> bool {
        self.deaf_file.go_away(away);
        true
    }

    fn fail_records(&self, n: u32) -> bool {
        self.deaf_file.fail_records(n);
        true
    }

    fn fail_settles(&self, n: u32) -> bool {
        self.deaf.fail_settles(n);
        true
    }

    fn settles_fail(&self) -> Box<dyn Fn(u32) + Send + Sync> {
        let deaf = Arc::clone(&self.deaf);
        Box::new(move |n| deaf.fail_settles(n))
    }

    /// Through the one level twice, which has 5 s.
    fn wait_of_hops(&self) -> Option<Duration> {
        Some(Duration::from_secs(11))
    }

    fn fail_receives(&self, n: u32) -> bool {
        self.deaf.fail_receives(n);
        true
    }
}

testkit::contract_tests!(
    match OnKafka::new(false) {
        Some(kafka) => kafka,
        None => return,
    },
    (flavor = "multi_thread", worker_threads = 2)
);

/// What has to do with bodies, with a ledger that keeps where they lie.
mod by_pointer {
    use super::OnKafka;

    testkit::contract_tests!(
        @each match OnKafka::new(true) {
            Some(kafka) => kafka,
            None => return,
        },
        (flavor = "multi_thread", worker_threads = 2),
        exits::dead_letters_are_kept,
        exits::parked_messages_are_kept,
        exits::discarded_messages_stay_on_the_record,
        exits::a_rejection_publishes_its_event,
        exits::a_rejection_without_a_target_is_parked,
        exits::a_rejection_that_its_target_refuses_is_parked,
        bytes::any_bytes_come_back,
        bytes::an_empty_body_comes_back,
        bytes::a_null_body_comes_back,
        bytes::ten_megabytes_come_back,
        bytes::foreign_headers_are_untouched,
        bytes::own_headers_never_pile_up,
        bytes::forged_headers_do_no_harm,
        deeds::retry_now_does_not_wait,
        deeds::retry_now_racing_expiry_makes_one_attempt,
        deeds::retry_now_begins_a_dead_message_again,
        deeds::cancel_takes_a_retry_back,
        deeds::discard_can_be_undone,
        deeds::park_and_archive_put_messages_aside,
        deeds::reroute_sends_elsewhere,
        deeds::a_copy_is_a_new_message,
        deeds::a_copy_inherits_what_it_does_not_bring,
        deeds::deeds_by_filter_touch_what_fits,
        deeds::deeds_stand_in_the_audit,
        replays::a_replay_knows_every_outcome,
        replays::a_replay_can_be_paused_and_survives_a_restart,
        replays::a_cancelled_replay_leaves_the_rest,
        replays::a_replay_keeps_its_rate_and_maximum,
        replays::a_replay_takes_ids,
        replays::the_flow_drops_a_replays_double,
        ledger::an_entry_answers_the_questions,
        ledger::history_keeps_the_first_and_the_last,
        ledger::filters_select_what_they_say,
        ledger::pages_follow_each_other,
        ledger::groups_and_counts_keep_up,
        ledger::retention_takes_only_what_is_finished,
        apart::a_copy_that_went_another_way_is_dropped,
        apart::a_cancelled_copy_is_dropped,
        apart::a_crash_between_ledger_and_broker_keeps_the_lane,
        apart::a_crash_after_a_second_failure_loses_nothing,
        apart::a_crash_before_a_dead_letter_keeps_it,
        apart::a_ledger_that_is_away_holds_up_nobody,
        apart::a_rebuild_brings_back_what_is_open,
        apart::a_source_replay_goes_to_the_flow_alone,
        apart::a_dead_letter_that_is_sent_in_again_is_a_message_of_its_own,
        unseen::a_copy_that_was_moved_on_is_waited_for,
        unseen::a_retry_that_the_ledger_never_heard_of_is_made,
        unseen::a_dead_letter_that_the_ledger_never_heard_of_is_one,
        unseen::a_new_ledger_brings_nothing_back_that_was_resolved,
        unseen::what_people_stopped_does_not_run_for_a_new_ledger,
    );
}
