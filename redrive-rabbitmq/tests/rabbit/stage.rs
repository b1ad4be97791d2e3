//! What the tests of this adapter share: queues, messages, a reader, and patience.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueBindOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use redrive_core::Timestamp;
use redrive_core::headers::Trail;
use redrive_engine::port::{
    Broker, Clock as _, Delivery, Outcome, PortError, Room, Settled, Settlement, Source, Subscription,
    SystemClock,
};
use redrive_rabbitmq::{Login, RabbitBroker, RabbitFlow};
use testkit::Services;
use testkit::services::{Kind, Server};

/// The limit of every wait: the machine may be busy, and a broker may be coming back.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A RabbitMQ and a name that no other test uses.
pub(crate) struct Stage {
    pub(crate) server: Arc<Server>,
    pub(crate) name: String,
    _services: Services,
}

impl Stage {
    /// On the RabbitMQ that all tests share.
    pub(crate) fn shared(test: &str) -> Option<Self> {
        let services = Services::connect();
        let server = Arc::new(services.rabbitmq()?);
        Some(Self { server, name: unique(test), _services: services })
    }

    /// On a RabbitMQ of its own, to be broken.
    pub(crate) fn own(test: &str) -> Option<Self> {
        let services = Services::connect();
        if !services.faults() {
            return None;
        }
        let server = Arc::new(services.own(Kind::Rabbitmq)?);
        server.ours_to_break().then(|| Self { server, name: unique(test), _services: services })
    }

    /// On a RabbitMQ of its own, with these settings.
    pub(crate) fn own_with(test: &str, settings: &str) -> Option<Self> {
        let services = Services::connect();
        if !services.faults() {
            return None;
        }
        let server = Arc::new(services.rabbitmq_with(settings)?);
        server.ours_to_break().then(|| Self { server, name: unique(test), _services: services })
    }

    /// How the server is reached.
    pub(crate) fn login(&self) -> Login {
        let rest = self.server.address().strip_prefix("amqp://").unwrap();
        let (user, place) = rest.split_once('@').unwrap();
        let (user, password) = user.split_once(':').unwrap();
        let (host, vhost) = place.split_once('/').unwrap_or((place, "%2f"));
        let (host, port) = host.split_once(':').unwrap();
        let mut login = Login::new(host, port.parse().unwrap());
        login.user = user.to_owned();
        login.password = password.to_owned();
        login.vhost = vhost.replace("%2f", "/").replace("%2F", "/");
        login.connect_timeout = Duration::from_secs(30);
        login
    }

    /// A flow on this stage with few levels.
    pub(crate) fn flow(&self) -> RabbitFlow {
        let mut flow = RabbitFlow::new(&self.name, self.login(), &self.name);
        flow.other_delays = Some((Duration::from_millis(100), Duration::from_secs(1)));
        flow.confirm_timeout = Duration::from_secs(30);
        flow
    }

    /// A broker for a flow, with all that it needs made.
    pub(crate) async fn broker(&self, flow: RabbitFlow) -> Arc<RabbitBroker> {
        let subscription = subscription(&flow);
        let broker = Arc::new(RabbitBroker::new(flow).unwrap());
        let plan = broker.plan(&subscription).await.unwrap();
        broker.apply(&plan).await.unwrap();
        broker
    }

    /// A channel of the test's own, which confirms.
    pub(crate) async fn channel(&self) -> Channel {
        let connection = Connection::connect(self.server.address(), ConnectionProperties::default());
        let channel = connection.await.unwrap().create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        channel
    }

    /// Publishes a message to the source, as somebody else does.
    pub(crate) async fn publish(&self, body: &str, properties: BasicProperties) {
        publish(&self.channel().await, &self.name, body, properties).await;
    }

    /// Takes one message out of a queue.
    pub(crate) async fn get(&self, queue: &str) -> Option<lapin::message::Delivery> {
        let channel = self.channel().await;
        let got = channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap()?;
        got.delivery.ack(BasicAckOptions::default()).await.unwrap();
        Some(got.delivery)
    }

    /// How many messages are ready in a queue; nothing when there is none.
    pub(crate) async fn ready(&self, queue: &str) -> Option<u32> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let channel = self.channel().await;
        let declared = channel.queue_declare(queue.into(), options, FieldTable::default()).await;
        declared.ok().map(|queue| queue.message_count())
    }

    /// Waits until so many messages are ready in a queue.
    pub(crate) async fn holds(&self, queue: &str, count: u32) {
        eventually(&format!("{count} messages in {queue}"), async || {
            (self.ready(queue).await == Some(count)).then_some(())
        })
        .await;
    }

    /// Has the server close all connections of the flow. No when the server is not ours to order about.
    pub(crate) fn close_connections(&self) -> bool {
        if !self.server.ours_to_order() {
            return false;
        }
        let all =
            self.server.tool(&["list_connections", "--no-table-headers", "-q", "pid", "client_properties"]);
        let own = all.lines().filter(|line| line.contains(&self.name));
        let pids: Vec<&str> = own.filter_map(|line| line.split('\t').next()).collect();
        assert!(!pids.is_empty(), "{all}");
        for pid in pids {
            self.server.tool(&["close_connection", pid, "the test closes it"]);
        }
        true
    }

    /// Binds a queue to an exchange.
    pub(crate) async fn bind(&self, exchange: &str, queue: &str, key: &str) {
        let (options, nothing) = (QueueBindOptions::default(), FieldTable::default());
        let bound = self
            .channel()
            .await
            .queue_bind(queue.into(), exchange.into(), key.into(), options, nothing)
            .await;
        bound.unwrap();
    }

    /// Deletes a queue.
    pub(crate) async fn delete(&self, queue: &str) {
        self.channel().await.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    }

    /// Makes a queue with these arguments.
    pub(crate) async fn queue(&self, queue: &str, arguments: Vec<(&str, AMQPValue)>) {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel().await.queue_declare(queue.into(), options, table(arguments)).await.unwrap();
    }
}

/// The queues of a test go with it.
impl Drop for Stage {
    fn drop(&mut self) {
        let flow = self.flow();
        let delete = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async move {
                let subscription = subscription(&flow);
                let broker = RabbitBroker::new(flow.clone()).ok()?;
                let plan = broker.plan(&subscription).await.ok()?;
                let address = format!(
                    "amqp://{}:{}@{}:{}/%2f",
                    flow.login.user, flow.login.password, flow.login.host, flow.login.port
                );
                let connection = Connection::connect(&address, ConnectionProperties::default()).await.ok()?;
                let channel = connection.create_channel().await.ok()?;
                for thing in plan.iter().filter(|thing| thing.exists && thing.kind == "queue") {
                    let options = QueueDeleteOptions::default();
                    channel.queue_delete(thing.name.as_str().into(), options).await.ok()?;
                }
                Some(())
            })
        };
        if !std::thread::panicking() {
            let _ = std::thread::spawn(delete).join();
        }
    }
}

fn unique(test: &str) -> String {
    format!("{test}-{}", &uuid::Uuid::now_v7().simple().to_string()[12..])
}

pub(crate) fn table(entries: Vec<(&str, AMQPValue)>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert(name.into(), value);
    }
    table
}

pub(crate) async fn publish(channel: &Channel, queue: &str, body: &str, properties: BasicProperties) {
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let sent = channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties);
    assert!(sent.await.unwrap().await.unwrap().is_ack());
}

pub(crate) fn subscription(flow: &RabbitFlow) -> Subscription {
    Subscription::new(Arc::clone(&flow.flow), flow.queue.as_str())
}

/// A message with an id.
pub(crate) fn named(id: &str) -> BasicProperties {
    BasicProperties::default().with_message_id(id.into())
}

/// What a source hands out, until there are so many.
pub(crate) async fn receive(source: &mut Box<dyn Source>, count: usize) -> Vec<Delivery> {
    let mut all = Vec::new();
    let receiving = async {
        while all.len() < count {
            let _ = source.receive(Room::of(count - all.len()), &mut all).await;
        }
    };
    tokio::time::timeout(PATIENCE, receiving).await.unwrap_or_else(|_| panic!("not {count} messages"));
    all
}

/// Ends one delivery.
pub(crate) async fn settle(
    broker: &RabbitBroker,
    delivery: &Delivery,
    outcome: Outcome,
) -> Result<Settled, PortError> {
    broker.settle(&[settlement(delivery, outcome)]).await.remove(0)
}

/// A delivery that failed once more, and what becomes of it.
pub(crate) fn settlement(delivery: &Delivery, outcome: Outcome) -> Settlement {
    let mut trail = Trail::clone(&delivery.trail);
    trail.attempt += 1;
    trail.entry_id.get_or_insert_with(|| uuid::Uuid::now_v7().to_string().into());
    Settlement { trail: Some(Box::new(trail)), ..Settlement::plain(delivery.clone(), outcome) }
}

/// A wait from now on.
pub(crate) fn later(wait: Duration) -> Outcome {
    Outcome::Delay { until: now() + wait }
}

pub(crate) fn now() -> Timestamp {
    SystemClock::default().now()
}

/// Asks until there is an answer.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
