//! The brokers that flows read: the data file itself, or one that stands apart from it.

use std::sync::Arc;
use std::time::Duration;

use redrive_engine::port::{Broker, Depth, Ledger, PortError, QueueInfo, Subscription, home_of};
use redrive_engine::{Apart, FlowSpec};
use tokio::time::timeout;

use crate::instance::Instance;
use crate::setup::Place;

/// A broker that needs longer than this to say what lies in it does not answer.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

/// The same when nobody waits for it.
const LONGEST_COUNT: Duration = Duration::from_secs(60);

/// What a flow reads, and what keeps the record of it.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    /// The broker, as the flow sees it.
    pub(crate) broker: Arc<dyn Broker>,
    /// The ledger, as the flow sees it.
    pub(crate) ledger: Arc<dyn Ledger>,
    /// The broker and the ledger put together, when they stand apart.
    pub(crate) apart: Option<Arc<Apart>>,
    /// What is read.
    pub(crate) subscription: Subscription,
    /// Whether it is a queue of the data file.
    own: bool,
}

impl Reader {
    /// Whether it reads a queue of the data file.
    pub(crate) fn is_own(&self) -> bool {
        self.own
    }

    /// The queues or topics at its broker; nothing when it does not answer.
    pub(crate) async fn queues(&self) -> Option<Vec<QueueInfo>> {
        timeout(LONGEST_LOOK, self.broker.queues()).await.ok()?.ok()
    }

    /// Whether it reads this queue or topic.
    fn reads(&self, queue: &str) -> bool {
        if self.own {
            return *self.subscription.source == *queue;
        }
        self.subscription.source.split(',').any(|topic| topic == queue)
            || queue == home_of(&self.subscription.flow)
    }

    /// How many messages of its source it has not read or not settled.
    pub(crate) fn lag(&self, queues: &[QueueInfo]) -> u64 {
        queues.iter().filter(|queue| self.reads(&queue.name)).map(|queue| queue.depth.ready).sum()
    }

    /// Whether something is ready or waits for its time.
    pub(crate) async fn is_busy(&self) -> bool {
        // What cannot be known is not idle: a broker that does not answer is no reason to end. The flow says why. A slow
        // one is given its time, or there would never be an end.
        let looked = timeout(LONGEST_COUNT, self.broker.queues()).await;
        let Ok(Ok(queues)) = looked else { return true };
        queues.iter().any(|queue| {
            (self.reads(&queue.name) && queue.depth != Depth::default())
                || (!self.own && queue.depth.waiting > 0)
        })
    }
}

/// Opens what a flow reads.
pub(crate) fn open(
    place: Place,
    spec: &FlowSpec,
    instance: &Instance,
    ledger: bool,
) -> Result<Reader, PortError> {
    let store = instance.store();
    let subscription = Subscription {
        flow: Arc::clone(&spec.name),
        source: Arc::clone(&spec.source),
        headers: spec.headers.clone(),
    };
    match place {
        Place::Queue => {
            // Its ledger is in the same file, and always there.
            let _ = ledger;
            let (broker, ledger) =
                (Arc::clone(store) as Arc<dyn Broker>, Arc::clone(store) as Arc<dyn Ledger>);
            Ok(Reader { broker, ledger, apart: None, subscription, own: true })
        }
        #[cfg(feature = "kafka")]
        Place::Kafka(mut flow) => {
            // Order lives in the data file, which no other instance has.
            flow.alone = !spec.order_by.is_none();
            flow.ledger = ledger;
            flow.instance = apart::member(instance).unwrap_or(flow.instance);
            let options = on_kafka::options(&flow);
            let outer = on_kafka::broker(*flow)?;
            Ok(apart::reader(outer, options, subscription, &spec.policy, instance, ledger))
        }
        #[cfg(feature = "rabbitmq")]
        Place::RabbitMq(mut flow) => {
            // What is rejected carries nothing by which a ledger would know it again.
            let ledger = ledger && flow.settle == redrive_rabbitmq::SettleMode::Republish;
            // Order lives in the data file, which no other instance has.
            flow.alone = !spec.order_by.is_none();
            flow.ledger = ledger;
            flow.instance = apart::member(instance).unwrap_or(flow.instance);
            let options = on_rabbitmq::options(&flow);
            let kept = ledger.then(|| Arc::clone(store) as Arc<dyn Ledger>);
            let outer = on_rabbitmq::reading(*flow, kept)?;
            Ok(apart::reader(outer, options, subscription, &spec.policy, instance, ledger))
        }
    }
}

/// A Kafka cluster without a flow, to publish to: the hosts of an address, or a broker of the configuration.
#[cfg(feature = "kafka")]
pub fn kafka(
    config: &crate::config::Config,
    address: &crate::address::KafkaAddress,
    env: &dyn Fn(&str) -> Option<String>,
) -> crate::Result<Arc<dyn Broker>> {
    let client = crate::setup::kafka_client(config, address, env).map_err(crate::Error::Flow)?;
    let topic = address.topics.first().map_or("", String::as_str);
    let mut flow = redrive_kafka::KafkaFlow::new("publish", &client.bootstrap, topic, "redrive-publish");
    flow.client = client;
    Ok(on_kafka::broker(flow)?)
}

/// The RabbitMQ of an address, to publish to. What waits for its time does so in the queues of the flow that reads the
/// queue: the one of the configuration, else one that has the queue's name.
#[cfg(feature = "rabbitmq")]
pub fn rabbitmq(
    config: &crate::config::Config,
    address: &crate::address::AmqpAddress,
    env: &dyn Fn(&str) -> Option<String>,
) -> crate::Result<Arc<dyn Broker>> {
    let flow = crate::setup::rabbitmq_to(config, address, env).map_err(crate::Error::Flow)?;
    Ok(on_rabbitmq::broker(flow)?)
}

/// The broker that a flow reads, without the flow; nothing for a queue of the data file.
pub(crate) fn alone(place: &Place) -> Result<Option<Arc<dyn Broker>>, PortError> {
    match place {
        Place::Queue => Ok(None),
        #[cfg(feature = "kafka")]
        Place::Kafka(flow) => on_kafka::broker((**flow).clone()).map(Some),
        #[cfg(feature = "rabbitmq")]
        Place::RabbitMq(flow) => on_rabbitmq::broker((**flow).clone()).map(Some),
    }
}

/// How RabbitMQ is told by policies what the flow's queues are; nothing for other brokers.
#[cfg_attr(
    not(feature = "rabbitmq"),
    expect(clippy::unused_async, reason = "RabbitMQ is asked for its version")
)]
pub(crate) async fn policies(place: &Place) -> Result<Vec<String>, PortError> {
    match place {
        #[cfg(feature = "rabbitmq")]
        Place::RabbitMq(flow) => on_rabbitmq::policies((**flow).clone()).await,
        _ => Ok(Vec::new()),
    }
}

/// What RabbitMQ has to allow the flow's user; nothing for other brokers.
pub(crate) fn permissions(place: &Place) -> Result<Vec<String>, PortError> {
    match place {
        #[cfg(feature = "rabbitmq")]
        Place::RabbitMq(flow) => on_rabbitmq::permissions((**flow).clone()),
        _ => Ok(Vec::new()),
    }
}

#[cfg(feature = "kafka")]
mod on_kafka {
    use redrive_engine::ApartOptions;
    use redrive_kafka::{Bodies, DelayMode, KafkaBroker, KafkaFlow, Role};

    use super::{Arc, Broker, PortError};

    pub(super) fn broker(flow: KafkaFlow) -> Result<Arc<dyn Broker>, PortError> {
        Ok(Arc::new(KafkaBroker::new(flow)?))
    }

    pub(super) fn options(flow: &KafkaFlow) -> ApartOptions {
        ApartOptions {
            delay_in_ledger: flow.delay == DelayMode::Ledger,
            // What projects and does nothing else takes in all there is.
            adopts: flow.role == Role::Ledger || (flow.role == Role::All && !flow.foreign.is_empty()),
            by_pointer: flow.bodies == Bodies::Pointer,
            ..ApartOptions::default()
        }
    }
}

#[cfg(feature = "rabbitmq")]
mod on_rabbitmq {
    use redrive_engine::ApartOptions;
    use redrive_rabbitmq::{Adopt, DelayMode, RabbitBroker, RabbitFlow, positions_in};

    use super::{Arc, Broker, Ledger, PortError};

    pub(super) fn broker(flow: RabbitFlow) -> Result<Arc<dyn Broker>, PortError> {
        Ok(Arc::new(RabbitBroker::new(flow)?))
    }

    /// One that keeps in the ledger how far it has read, where the broker does not.
    pub(super) fn reading(
        flow: RabbitFlow,
        ledger: Option<Arc<dyn Ledger>>,
    ) -> Result<Arc<dyn Broker>, PortError> {
        let broker = RabbitBroker::new(flow)?;
        Ok(Arc::new(match ledger {
            Some(ledger) => broker.with_positions(positions_in(ledger)),
            None => broker,
        }))
    }

    pub(super) async fn policies(flow: RabbitFlow) -> Result<Vec<String>, PortError> {
        Ok(RabbitBroker::new(flow)?.policies().await)
    }

    pub(super) fn permissions(flow: RabbitFlow) -> Result<Vec<String>, PortError> {
        Ok(RabbitBroker::new(flow)?.permissions())
    }

    pub(super) fn options(flow: &RabbitFlow) -> ApartOptions {
        ApartOptions {
            delay_in_ledger: flow.delay == DelayMode::Ledger,
            adopts: flow.adopt == Adopt::IntoLedger || !flow.foreign.is_empty(),
            looks_anew: true,
            ..ApartOptions::default()
        }
    }
}

/// A broker that stands apart from the data file, and the ledger put together with it.
#[cfg(any(feature = "kafka", feature = "rabbitmq"))]
mod apart {
    use redrive_core::Policy;
    use redrive_engine::{ApartOptions, NoLedger};

    use super::{Apart, Arc, Broker, Instance, Ledger, Reader, Subscription};

    pub(super) fn reader(
        outer: Arc<dyn Broker>,
        options: ApartOptions,
        subscription: Subscription,
        policy: &Arc<Policy>,
        instance: &Instance,
        ledger: bool,
    ) -> Reader {
        if !ledger {
            let ledger = Arc::new(NoLedger) as Arc<dyn Ledger>;
            return Reader { broker: outer, ledger, apart: None, subscription, own: false };
        }
        let store = instance.store();
        let kept = Arc::clone(store) as Arc<dyn Ledger>;
        let apart = Apart::new(
            outer,
            Arc::clone(store) as Arc<dyn Broker>,
            Arc::clone(&kept),
            &subscription.flow,
            Arc::clone(instance.clock()),
            options,
        );
        let apart = Arc::new(apart.with_policy(Arc::clone(policy)));
        let broker = Arc::clone(&apart) as Arc<dyn Broker>;
        Reader { broker, ledger: kept, apart: Some(apart), subscription, own: false }
    }

    /// This instance's name at the broker, the same after a restart: what a process that was killed left open there is
    /// then ended by the next one, and nobody has to wait for it. One process at a time has the folder.
    pub(super) fn member(instance: &Instance) -> Option<String> {
        let file = instance.folder().join("instance");
        if let Ok(name) = std::fs::read_to_string(&file) {
            let name = name.trim();
            let fits =
                (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if fits {
                return Some(name.to_owned());
            }
        }
        let name = uuid::Uuid::now_v7().simple().to_string();
        match std::fs::write(&file, &name) {
            Ok(()) => Some(name),
            Err(error) => {
                tracing::warn!(file = %file.display(), error = %error, "instance cannot keep its name");
                None
            }
        }
    }
}
