//! A real RabbitMQ, a folder, and the binary between them.

use std::collections::BTreeMap;
use std::time::Duration;

use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind};
use serde_json::Value;
use testkit::Services;
use testkit::services::{Kind, Server};

use crate::desk::{Desk, Ran};
use crate::running::{HANDLER, Running, eventually};

/// A RabbitMQ, a folder with a handler, and a name that no other test uses.
pub(crate) struct World {
    pub(crate) desk: Desk,
    pub(crate) name: String,
    pub(crate) server: Server,
    _services: Services,
}

/// A message as it lies in a queue.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) body: String,
    pub(crate) id: Option<String>,
    pub(crate) properties: BasicProperties,
    pub(crate) headers: BTreeMap<String, AMQPValue>,
}

impl Found {
    /// A header that is text.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        match self.headers.get(name)? {
            AMQPValue::LongString(text) => Some(text.to_string()),
            AMQPValue::ShortString(text) => Some(text.to_string()),
            other => Some(format!("{other:?}")),
        }
    }
}

impl World {
    /// Nothing where there is no RabbitMQ to be had, which is reported.
    pub(crate) fn open(test: &str) -> Option<Self> {
        let services = Services::connect();
        let server = services.rabbitmq()?;
        Some(Self::on(services, server, test))
    }

    /// On a RabbitMQ of its own, to be broken.
    pub(crate) fn own(test: &str) -> Option<Self> {
        Self::broken(test, |services| services.own(Kind::Rabbitmq))
    }

    /// The same with these settings.
    pub(crate) fn own_with(test: &str, settings: &str) -> Option<Self> {
        Self::broken(test, |services| services.rabbitmq_with(settings))
    }

    /// On a server that may be broken. Nothing where a run does without faults.
    fn broken(test: &str, server: impl FnOnce(&Services) -> Option<Server>) -> Option<Self> {
        let services = Services::connect();
        if !services.faults() {
            return None;
        }
        let server = server(&services)?;
        server.ours_to_break().then(|| Self::on(services, server, test))
    }

    fn on(services: Services, server: Server, test: &str) -> Self {
        let desk = Desk::new();
        std::fs::write(desk.path("handle.sh"), HANDLER).unwrap();
        let unique = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let name = format!("{test}-{}-{unique:x}", std::process::id());
        Self { desk, name, server, _services: services }
    }

    /// The address of the server, with its virtual host.
    pub(crate) fn server(&self) -> &str {
        self.server.address()
    }

    /// The address of the source.
    pub(crate) fn source(&self) -> String {
        self.at(&self.name)
    }

    /// The address of a queue.
    pub(crate) fn at(&self, queue: &str) -> String {
        format!("{}?queue={queue}", self.server())
    }

    /// A name that begins with the flow's.
    pub(crate) fn named(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.name)
    }

    /// Does something on a channel of its own.
    pub(crate) fn on_channel<T>(&self, work: impl AsyncFn(Channel) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let answer = runtime.block_on(async {
            let connection =
                Connection::connect(self.server(), ConnectionProperties::default()).await.unwrap();
            let channel = connection.create_channel().await.unwrap();
            channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
            let answer = work(channel).await;
            // Now and then the client library waits without an end when the server has just closed the channel.
            let _ = tokio::time::timeout(Duration::from_secs(2), connection.close(200, "".into())).await;
            answer
        });
        // What the client library has running may not end with its connection, and would be waited for without an end.
        runtime.shutdown_timeout(Duration::from_secs(5));
        answer
    }

    /// Makes a quorum queue with these arguments.
    pub(crate) fn queue(&self, queue: &str, arguments: &[(&str, AMQPValue)]) {
        self.on_channel(async |channel| {
            let mut table = FieldTable::default();
            table.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
            for (name, value) in arguments {
                table.insert((*name).into(), value.clone());
            }
            let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            channel.queue_declare(queue.into(), options, table).await.unwrap();
        });
    }

    /// Makes a fanout exchange and binds a queue to it.
    pub(crate) fn exchange(&self, exchange: &str, queue: &str) {
        self.on_channel(async |channel| {
            let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            let nothing = FieldTable::default;
            channel
                .exchange_declare(exchange.into(), ExchangeKind::Fanout, options, nothing())
                .await
                .unwrap();
            let bind = QueueBindOptions::default();
            channel.queue_bind(queue.into(), exchange.into(), "".into(), bind, nothing()).await.unwrap();
        });
    }

    /// Deletes exchanges; one that is not there is as good as deleted.
    pub(crate) fn delete_exchanges(&self, exchanges: &[String]) {
        self.on_channel(async |channel| {
            for exchange in exchanges {
                let options = ExchangeDeleteOptions::default();
                channel.exchange_delete(exchange.as_str().into(), options).await.unwrap();
            }
        });
    }

    pub(crate) fn delete(&self, queue: &str) {
        self.on_channel(async |channel| {
            channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
        });
    }

    /// Publishes many messages of these ids and bodies.
    pub(crate) fn publish_all(&self, messages: impl IntoIterator<Item = (String, &'static str)>) {
        let line = |(id, body): (String, &str)| format!("{{\"id\": \"{id}\", \"body\": \"{body}\"}}\n");
        let lines: String = messages.into_iter().map(line).collect();
        std::fs::write(self.desk.path("messages.jsonl"), lines).unwrap();
        self.does(&["publish", &self.source(), "--jsonl", "messages.jsonl"]);
    }

    /// Publishes with properties that the command has no words for.
    pub(crate) fn produce(&self, queue: &str, body: &str, properties: BasicProperties) {
        self.on_channel(async |channel| {
            let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
            let properties = properties.clone().with_delivery_mode(2);
            let sent = channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties);
            let confirmation = sent.await.unwrap().await.unwrap();
            assert!(matches!(confirmation, Confirmation::Ack(None)), "not stored: {confirmation:?}");
        });
    }

    /// Takes so many messages out of a queue, and waits until they are there.
    pub(crate) fn take(&self, queue: &str, count: usize) -> Vec<Found> {
        self.on_channel(async |channel| {
            let mut found = Vec::new();
            let asked = tokio::time::timeout(Duration::from_secs(180), async {
                let mut pause = tokio::time::interval(Duration::from_millis(50));
                while found.len() < count {
                    let got = channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap();
                    let Some(message) = got else {
                        pause.tick().await;
                        continue;
                    };
                    message.delivery.acker.ack(BasicAckOptions::default()).await.unwrap();
                    let properties = message.delivery.properties.clone();
                    let headers = properties.headers().iter().flat_map(|table| table.inner().iter());
                    let headers = headers.map(|(name, value)| (name.to_string(), value.clone())).collect();
                    found.push(Found {
                        body: String::from_utf8_lossy(&message.delivery.data).into_owned(),
                        id: properties.message_id().as_ref().map(ToString::to_string),
                        headers,
                        properties,
                    });
                }
            });
            let arrived = asked.await.is_ok();
            assert!(arrived, "waited in vain for {count} messages in {queue}: {found:?}");
            found
        })
    }

    /// How many messages lie ready in a queue; nothing when there is no such queue.
    pub(crate) fn ready(&self, queue: &str) -> Option<u32> {
        self.on_channel(async |channel| {
            let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            let declared = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
            declared.ok().map(|queue| queue.message_count())
        })
    }

    /// Runs a flow from the source to the handler until it is stopped.
    pub(crate) fn start(&self, more: &[&str]) -> Running {
        let source = self.source();
        let flow = ["--from", &source, "--to", "exec:sh handle.sh", "--retry", "100ms x2"];
        self.start_with(&[&flow[..], more].concat())
    }

    /// Writes a file with one flow on the source; answers with the file's name.
    pub(crate) fn configured(&self, file: &str, settings: &[&str]) -> String {
        let (server, name) = (self.server(), &self.name);
        let mut text = format!(
            "version: 1\nbrokers: {{ main: {{ rabbitmq: {{ url: \"{server}\" }} }} }}\nflows:\n  {name}:\n    from: amqp://main?queue={name}\n"
        );
        for setting in settings {
            text.push_str(&format!("    {setting}\n"));
        }
        std::fs::write(self.desk.path(file), text).unwrap();
        file.to_owned()
    }

    /// Runs anything that listens until it is stopped; answers with its address, too.
    pub(crate) fn start_listening(&self, arguments: &[&str]) -> (Running, String) {
        let all = [&["run"], arguments, &["--listen", "127.0.0.1:0", "--log-level", "warn"]].concat();
        let running = Running::start(&self.desk.path(""), &all);
        let said = running.said();
        let ready = said.iter().find_map(|line| line.strip_prefix("redrive ready http://"));
        let address = ready.expect("an address").to_owned();
        (running, address)
    }

    /// Runs anything until it is stopped.
    pub(crate) fn start_with(&self, arguments: &[&str]) -> Running {
        let quiet = ["--listen", "off", "--log-level", "warn"];
        Running::start(&self.desk.path(""), &[&["run"], arguments, &quiet[..]].concat())
    }

    /// Publishes a message into a queue.
    pub(crate) fn publish(&self, queue: &str, id: &str, body: &str, more: &[&str]) {
        let address = self.at(queue);
        let ran = self.desk.run(&[&["publish", &address, body, "--id", id], more].concat());
        assert_eq!((ran.code, ran.text().trim()), (0, id), "{}", ran.stderr);
    }

    /// Waits until a message stands in this state.
    pub(crate) fn stands(&self, id: &str, state: &str) -> Value {
        eventually(&format!("{id} to be {state}"), || {
            let shown = self.desk.run(&["messages", "show", id, "--json"]);
            match shown.code {
                0 if shown.json()[0]["state"] == state => Ok(shown.json()[0].clone()),
                _ => Err(format!("{} {}", shown.text(), shown.stderr)),
            }
        })
    }

    /// Waits until the handler has shipped so many orders; answers with them.
    pub(crate) fn shipped(&self, count: usize) -> Vec<String> {
        eventually(&format!("{count} shipped orders"), || {
            let text = std::fs::read_to_string(self.desk.path("shipped")).unwrap_or_default();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if lines.len() >= count { Ok(lines) } else { Err(text) }
        })
    }

    #[track_caller]
    pub(crate) fn does(&self, arguments: &[&str]) -> Ran {
        let ran = self.desk.run(arguments);
        assert_eq!(ran.code, 0, "redrive {}: {}{}", arguments.join(" "), ran.text(), ran.stderr);
        ran
    }
}
