//! The side of RabbitMQ: a source with messages in it, and what lies in the queues of the flow in the end.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeleteOptions,
    QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};
use testkit::Services;
use testkit::services::{Kind, Server};

/// The limit of every wait: the machine may be busy, and a broker may be coming back.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A RabbitMQ, and a name that no other test uses.
pub(crate) struct Rabbit {
    pub(crate) name: String,
    server: Server,
    _services: Services,
}

impl Rabbit {
    /// On the RabbitMQ that all tests share. Nothing where a run does without faults, or there is none to be had.
    pub(crate) fn shared(test: &str) -> Option<Self> {
        let services = Services::connect();
        if !services.faults() {
            return None;
        }
        let server = services.rabbitmq()?;
        Some(Self { name: unique(test), server, _services: services })
    }

    /// On a RabbitMQ of its own, to be killed.
    pub(crate) fn own(test: &str) -> Option<Self> {
        let services = Services::connect();
        if !services.faults() {
            return None;
        }
        let server = services.own(Kind::Rabbitmq)?;
        server.ours_to_break().then(|| Self { name: unique(test), server, _services: services })
    }

    /// On a RabbitMQ of its own that tries again after so many milliseconds what it could not give away; nothing is as long
    /// as it does by itself.
    pub(crate) fn own_that_tries_again(test: &str, after: Option<u32>) -> Option<Self> {
        let services = Services::connect();
        if !services.faults() {
            return None;
        }
        let terms = after.map(|millis| format!("{{dead_letter_worker_publisher_confirm_timeout, {millis}}}"));
        let settings = format!("[{{rabbit, [{}]}}].", terms.unwrap_or_default());
        let server = services.rabbitmq_with(&settings)?;
        server.ours_to_break().then(|| Self { name: unique(test), server, _services: services })
    }

    /// Deletes an exchange of the flow.
    pub(crate) fn delete_exchange(&self, suffix: &str) {
        let exchange = format!("{}{suffix}", self.name);
        block_on(async {
            let (_connection, channel) = self.channel().await.unwrap();
            let options = ExchangeDeleteOptions::default();
            channel.exchange_delete(exchange.as_str().into(), options).await.unwrap();
        });
    }

    /// The configuration of the flow. A process that is killed is no message's fault here, so crashes are not held
    /// against any. And without its breaker, since a handler that is down would hold the flow instead of using the
    /// attempts up.
    pub(crate) fn config(&self, handler: SocketAddr, delay: &str, retry: &str) -> String {
        let (name, url) = (&self.name, self.server.address());
        format!(
            "version: 1
brokers:
  main: {{ rabbitmq: {{ url: \"{url}\" }} }}
flows:
  {name}:
    from: amqp://main?queue={name}
    to: http://{handler}/orders
    retry: {retry}
    concurrency: 4
    delay: {delay}
    crash_limit: 100
    breaker: {{ consecutive: 0, min_calls: 100000 }}
"
        )
    }

    /// Makes the flow's queues, so that there is something to write to before a member runs.
    pub(crate) fn make_source(config: &str) {
        command(config, &["topology", "apply"], "");
    }

    /// Writes messages that are due after longer than the flow's queues let them wait at once.
    pub(crate) fn produce_later(&self, config: &str, messages: &[(String, &str)]) {
        let line = |(id, body): &(String, &str)| {
            format!("{{\"id\": \"{id}\", \"body\": \"{body}\", \"delay\": \"1s\"}}\n")
        };
        let lines: String = messages.iter().map(line).collect();
        let address = format!("{}?queue={}", self.server.address(), self.name);
        command(config, &["publish", &address, "--jsonl", "-"], &lines);
    }

    async fn channel(&self) -> Result<(Connection, Channel), lapin::Error> {
        let connection = Connection::connect(self.server.address(), ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok((connection, channel))
    }

    /// Writes messages, each with its id and its body, so that only a stored one counts.
    pub(crate) fn produce(&self, messages: &[(String, &str)]) {
        block_on(async {
            let (_connection, channel) = self.channel().await.unwrap();
            for (id, body) in messages {
                let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
                let properties =
                    BasicProperties::default().with_delivery_mode(2).with_message_id(id.as_str().into());
                let name = self.name.as_str().into();
                let sent = channel.basic_publish("".into(), name, options, body.as_bytes(), properties);
                let confirmation = sent.await.unwrap().await.unwrap();
                assert!(matches!(confirmation, Confirmation::Ack(None)), "not stored: {confirmation:?}");
            }
        });
    }

    /// How often each message is found in a queue, which is empty then.
    pub(crate) fn found(&self, suffix: &str) -> BTreeMap<String, usize> {
        let queue = format!("{}{suffix}", self.name);
        block_on(async {
            let (_connection, channel) = self.channel().await.unwrap();
            let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            let declared = channel.queue_declare(queue.as_str().into(), passive, FieldTable::default());
            let count = declared.await.unwrap().message_count();
            let mut found: BTreeMap<String, usize> = BTreeMap::new();
            let until = Instant::now() + PATIENCE;
            let (mut taken, mut pause) = (0, tokio::time::interval(Duration::from_millis(20)));
            while taken < count {
                assert!(Instant::now() < until, "{queue} cannot be read to its end");
                let got = channel.basic_get(queue.as_str().into(), BasicGetOptions::default()).await.unwrap();
                let Some(message) = got else {
                    pause.tick().await;
                    continue;
                };
                taken += 1;
                message.delivery.acker.ack(BasicAckOptions::default()).await.unwrap();
                let id = message.delivery.properties.message_id().as_ref().map(ToString::to_string);
                *found.entry(id.unwrap_or_default()).or_default() += 1;
            }
            found
        })
    }

    /// How many messages are ready in a queue of the flow.
    pub(crate) fn ready(&self, suffix: &str) -> usize {
        let queue = format!("{}{suffix}", self.name);
        block_on(async {
            let (_connection, channel) = self.channel().await.unwrap();
            let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            let declared = channel.queue_declare(queue.as_str().into(), passive, FieldTable::default());
            declared.await.unwrap().message_count() as usize
        })
    }

    /// Kills the broker and starts it again; waits until it answers and the source has a leader.
    pub(crate) fn kill_and_start(&self) {
        self.server.kill();
        self.server.start();
        eventually("the broker answers", || {
            block_on(async {
                let (_connection, channel) = self.channel().await.map_err(|error| error.to_string())?;
                let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
                let name = self.name.as_str().into();
                let declared = channel.queue_declare(name, passive, FieldTable::default()).await;
                declared.map(drop).map_err(|error| error.to_string())
            })
        });
    }
}

/// Runs a command in a folder with this configuration.
fn command(config: &str, arguments: &[&str], input: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("redrive.yaml"), config).unwrap();
    std::fs::write(folder.path().join("input"), input).unwrap();
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_redrive"))
        .args(arguments)
        .current_dir(folder.path())
        .env_remove("REDRIVE_CONFIG")
        .env_remove("REDRIVE_DATA")
        .stdin(std::fs::File::open(folder.path().join("input")).unwrap())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let answer = runtime.block_on(work);
    // What the client library has running may not end with its connection, and would be waited for without an end.
    runtime.shutdown_timeout(Duration::from_secs(5));
    answer
}

fn unique(test: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
    format!("{test}-{}-{now:x}", std::process::id())
}

/// Asks again and again until there is an answer.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(found) if Instant::now() >= until => panic!("waited in vain: {what}; found {found}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
