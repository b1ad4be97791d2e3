//! A real Kafka, a folder, and the binary between them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rdkafka::Offset;
use rdkafka::message::{Headers as _, Message as _, OwnedMessage};
use serde_json::Value;
use testkit::Services;
use testkit::kafka::{Kafka, unique};
use testkit::services::{Kind, Server};

use crate::desk::{Desk, Ran};
pub(crate) use crate::running::eventually;
use crate::running::{HANDLER, Running};

/// A Kafka, a folder with a handler, and a name that no other test uses.
pub(crate) struct World {
    pub(crate) desk: Desk,
    pub(crate) name: String,
    pub(crate) server: Server,
    _services: Services,
}

/// A record as it lies in a topic.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) key: Option<String>,
    pub(crate) body: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
}

impl Found {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl World {
    /// Nothing where there is no Kafka to be had, which is reported.
    pub(crate) fn open(test: &str) -> Option<Self> {
        let services = Services::connect();
        let server = services.kafka()?;
        Some(Self::on(test, server, services))
    }

    /// On a Kafka of its own, to be broken. Nothing where a run does without faults.
    pub(crate) fn own(test: &str) -> Option<Self> {
        let services = Services::connect();
        if !services.faults() {
            return None;
        }
        let server = services.own(Kind::Kafka)?;
        server.ours_to_break().then(|| Self::on(test, server, services))
    }

    fn on(test: &str, server: Server, services: Services) -> Self {
        let desk = Desk::new();
        std::fs::write(desk.path("handle.sh"), HANDLER).unwrap();
        let name = unique(test);
        Self { desk, name, server, _services: services }
    }

    pub(crate) fn bootstrap(&self) -> &str {
        self.server.address()
    }

    /// The address of the source, with its group.
    pub(crate) fn source(&self) -> String {
        format!("kafka://{}/{name}?group={name}", self.bootstrap(), name = self.name)
    }

    /// The address of a topic.
    pub(crate) fn at(&self, topic: &str) -> String {
        format!("kafka://{}/{topic}", self.bootstrap())
    }

    /// A name that begins with the flow's.
    pub(crate) fn named(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.name)
    }

    pub(crate) fn kafka(&self) -> Kafka {
        Kafka::at(self.bootstrap())
    }

    /// Makes a topic, and waits until it can be written to.
    pub(crate) fn topic(&self, topic: &str, partitions: i32) {
        self.kafka().topic(topic, partitions, &[]);
    }

    /// Drops all that lies in a topic of one partition, as retention does.
    pub(crate) fn drop_all(&self, topic: &str) {
        self.kafka().drop_before(topic, 0, Offset::End);
    }

    /// What a reader of committed records finds in a topic now.
    pub(crate) fn read(&self, topic: &str) -> Vec<Found> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let shown = |record: &OwnedMessage| {
            let headers = record.headers().map(|headers| {
                let pairs = headers
                    .iter()
                    .map(|header| (header.key.to_owned(), header.value.map(text).unwrap_or_default()));
                pairs.collect()
            });
            Found {
                key: record.key().map(text),
                body: record.payload().map(text),
                headers: headers.unwrap_or_default(),
            }
        };
        self.kafka().read(topic).iter().map(shown).collect()
    }

    /// Runs a flow from the source to the handler until it is stopped.
    pub(crate) fn start(&self, more: &[&str]) -> Running {
        let source = self.source();
        let flow = ["--from", &source, "--to", "exec:sh handle.sh", "--retry", "100ms x2"];
        self.start_with(&[&flow[..], more].concat())
    }

    /// Runs anything until it is stopped.
    pub(crate) fn start_with(&self, arguments: &[&str]) -> Running {
        let quiet = ["--listen", "off", "--log-level", "warn"];
        Running::start(&self.desk.path(""), &[&["run"], arguments, &quiet[..]].concat())
    }

    /// The same, listening; and where.
    pub(crate) fn start_listening(&self, arguments: &[&str]) -> (Running, String) {
        let all = [&["run"], arguments, &["--listen", "127.0.0.1:0", "--log-level", "warn"]].concat();
        let running = Running::start(&self.desk.path(""), &all);
        let said = running.said();
        let ready = said.iter().find_map(|line| line.strip_prefix("redrive ready http://"));
        let address = ready.expect("an address").to_owned();
        (running, address)
    }

    /// Runs a flow until it passes a point, at which it dies.
    pub(crate) fn dies_at(&self, point: &str, arguments: &[&str]) {
        let all = [&["run"], arguments, &["--listen", "off", "--log-level", "warn"]].concat();
        Running::start_failing(&self.desk.path(""), &all, point).dies();
    }

    /// Publishes a message into a topic.
    pub(crate) fn publish(&self, topic: &str, id: &str, body: &str, more: &[&str]) {
        let address = self.at(topic);
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

/// What an instance that listens answers, with its status.
pub(crate) fn get(address: &str, path: &str) -> Result<String, String> {
    let mut stream = TcpStream::connect(address).map_err(|error| error.to_string())?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    Ok(answer)
}
