//! The contract on a real RabbitMQ, with its ledger in a file.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use lapin::options::{ExchangeDeleteOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties};
use redrive_engine::port::{Broker, Capabilities, Clock as _, Depth, Subscription};
use redrive_engine::{Apart, ApartOptions, FlowSpec};
use redrive_rabbitmq::{DelayMode, Login, RabbitBroker, RabbitFlow};
use redrive_sqlite::{Options, Store};
use testkit::Services;
use testkit::clock::TestClock;
use testkit::contract::{Fixture, Ports, eventually};
use testkit::faulty::{Deaf, Faulty};
use testkit::services::Server;

/// The queues that scenarios write to without a flow that would make them.
const QUEUES: [&str; 4] = ["orders", "elsewhere", "rejected", "mail"];

struct OnRabbit {
    server: Server,
    _services: Services,
    /// What the names of this test's queues begin with.
    prefix: String,
    folder: tempfile::TempDir,
    /// The number of the ledger's file: another one when it was lost.
    file: Mutex<u32>,
    deaf: Arc<Deaf>,
    apart: Mutex<Weak<Apart>>,
    store: Mutex<Weak<Store>>,
    /// The flows of the test, to be taken away with it.
    flows: Mutex<Vec<RabbitFlow>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `amqp://user:password@host:port/vhost`, as the servers for tests give it.
fn login(address: &str) -> Login {
    let rest = address.strip_prefix("amqp://").expect("an AMQP address");
    let (user, place) = rest.split_once('@').expect("a user");
    let (user, password) = user.split_once(':').expect("a password");
    let (host, vhost) = place.split_once('/').unwrap_or((place, "%2f"));
    let (host, port) = host.split_once(':').expect("a port");
    let mut login = Login::new(host, port.parse().expect("a port"));
    login.user = user.to_owned();
    login.password = password.to_owned();
    login.vhost = vhost.replace("%2f", "/").replace("%2F", "/");
    login.connect_timeout = Duration::from_secs(30);
    login
}

/// The queues of a test go with it: a broker with thousands of them is slow for all others.
impl Drop for OnRabbit {
    fn drop(&mut self) {
        let flows = std::mem::take(&mut *lock(&self.flows));
        let address = self.server.address().to_owned();
        let names: Vec<String> = QUEUES.iter().map(|name| self.address(name)).collect();
        let delete = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async move {
                let connection = Connection::connect(&address, ConnectionProperties::default()).await.ok()?;
                let mut channel = connection.create_channel().await.ok()?;
                for flow in flows {
                    let subscription = Subscription::new(&*flow.flow, flow.queue.as_str());
                    let broker = RabbitBroker::new(flow).ok()?;
                    for thing in broker.plan(&subscription).await.ok()? {
                        let name = thing.name.as_str();
                        if thing.exists && thing.kind == "exchange" {
                            channel
                                .exchange_delete(name.into(), ExchangeDeleteOptions::default())
                                .await
                                .ok()?;
                        } else if thing.exists && thing.kind == "queue" {
                            channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.ok()?;
                        }
                    }
                }
                for name in names {
                    if channel
                        .queue_delete(name.as_str().into(), QueueDeleteOptions::default())
                        .await
                        .is_err()
                    {
                        channel = connection.create_channel().await.ok()?;
                    }
                }
                // Now and then the client library waits without an end when the server has just closed a channel.
                let closing = connection.close(200, "done".into());
                tokio::time::timeout(Duration::from_secs(2), closing).await.ok()?.ok()
            })
        };
        // On a thread of its own: a test's runtime may be this one.
        let _ = std::thread::spawn(delete).join();
    }
}

impl OnRabbit {
    fn new() -> Option<Self> {
        let services = Services::connect();
        let server = services.rabbitmq()?;
        Some(Self {
            server,
            _services: services,
            prefix: uuid::Uuid::now_v7().simple().to_string(),
            folder: tempfile::tempdir().expect("a folder"),
            file: Mutex::new(0),
            deaf: Arc::default(),
            apart: Mutex::default(),
            store: Mutex::default(),
            flows: Mutex::default(),
        })
    }

    fn flow(&self, flow: &str, queue: &str) -> RabbitFlow {
        let mut rabbit = RabbitFlow::new(&self.address(flow), login(self.server.address()), queue);
        // Few levels: many queues in every test would be the broker's work more than ours.
        rabbit.steps = vec![Duration::from_millis(100)];
        rabbit.other_delays = Some((Duration::from_millis(100), Duration::from_secs(4)));
        rabbit.confirm_timeout = Duration::from_secs(30);
        rabbit.ledger = true;
        rabbit.instance = "contract".to_owned();
        rabbit
    }

    fn broker(&self, flow: &str, source: &str, store: &Arc<Store>, clock: &Arc<TestClock>) -> Arc<Apart> {
        let rabbit = self.flow(flow, source);
        let mut flows = lock(&self.flows);
        if !flows.iter().any(|known| known.flow == rabbit.flow) {
            flows.push(rabbit.clone());
        }
        drop(flows);
        let broker = RabbitBroker::with_clock(rabbit, clock.clone()).expect("a broker");
        let outer = Arc::new(Faulty::new(Arc::new(broker), Arc::clone(&self.deaf)));
        let options =
            ApartOptions { every: self.tick(), overdue: Duration::from_secs(5), ..ApartOptions::default() };
        let (home, ledger) = (Arc::clone(store), Arc::clone(store));
        Arc::new(Apart::new(outer, home, ledger, flow, clock.clone(), options))
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
        Ports { broker: apart, ledger: store, clock }
    }
}

#[async_trait]
impl Fixture for OnRabbit {
    fn capabilities(&self) -> Capabilities {
        let rabbit = RabbitBroker::new(self.flow("orders", "orders")).expect("a broker").capabilities();
        Capabilities { records_in_settle: true, waiting_is_reachable: true, lanes: true, ..rabbit }
    }

    fn tick(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// A broker that other tests keep busy may take its time.
    fn patience(&self) -> Duration {
        Duration::from_secs(180)
    }

    async fn open(&self) -> Ports {
        let connection = Connection::connect(self.server.address(), ConnectionProperties::default());
        let channel = connection.await.expect("a connection").create_channel().await.expect("a channel");
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        for name in QUEUES {
            let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            let name = self.address(name);
            channel.queue_declare(name.as_str().into(), options, arguments.clone()).await.expect("a queue");
        }
        // The broker counts by the time of the world.
        let clock = Arc::new(TestClock::default());
        let world = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
        let begins = Duration::from_millis(clock.now().as_millis().cast_unsigned());
        clock.forward(world.saturating_sub(begins));
        clock.back(begins.saturating_sub(world));
        let ports = self.ports(clock).await;
        let subscription = Subscription::new("orders", self.address("orders"));
        let needed = ports.broker.plan(&subscription).await.expect("a plan");
        ports.broker.apply(&needed).await.expect("queues of the flow");
        ports
    }

    async fn reopen(&self, ports: Ports) -> Ports {
        let clock = ports.clock.clone();
        drop(ports);
        self.ports(clock).await
    }

    fn address(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    async fn depth(&self, ports: &Ports, address: &str) -> Depth {
        let mut most = Depth::default();
        // A message on its way from one queue to the next is in neither for a moment.
        for _ in 0..3 {
            let queues = if QUEUES[1..].iter().any(|queue| self.address(queue) == address) {
                // No flow of the scenario reads it: all that lies there counts.
                let mut flow = RabbitFlow::new("nobody", login(self.server.address()), address);
                flow.delay = DelayMode::Ledger;
                RabbitBroker::new(flow).expect("a broker").queues().await.expect("queues")
            } else {
                ports.broker.queues().await.expect("queues")
            };
            let of_flow = self.address("orders");
            // What waits lies in queues of its own.
            let waits = |name: &str| name == address || (address == of_flow && name.starts_with(&of_flow));
            let ready: u64 =
                queues.iter().filter(|queue| queue.name == address).map(|queue| queue.depth.ready).sum();
            let waiting: u64 =
                queues.iter().filter(|queue| waits(&queue.name)).map(|queue| queue.depth.waiting).sum();
            most = Depth { ready: most.ready.max(ready), waiting: most.waiting.max(waiting) };
            if most != Depth::default() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        most
    }

    /// A queue hands out and forgets.
    fn keeps_what_was_read(&self) -> bool {
        false
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
        let clock = ports.clock.clone();
        drop(ports);
        *lock(&self.file) += 1;
        Some(self.ports(clock).await)
    }

    fn fail_settles(&self, n: u32) -> bool {
        self.deaf.fail_settles(n);
        true
    }

    fn settles_fail(&self) -> Box<dyn Fn(u32) + Send + Sync> {
        let deaf = Arc::clone(&self.deaf);
        Box::new(move |n| deaf.fail_settles(n))
    }

    fn fail_receives(&self, n: u32) -> bool {
        self.deaf.fail_receives(n);
        true
    }
}

testkit::contract_tests!(
    match OnRabbit::new() {
        Some(rabbit) => rabbit,
        None => return,
    },
    (flavor = "multi_thread", worker_threads = 2)
);
