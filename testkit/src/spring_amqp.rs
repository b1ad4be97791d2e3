//! A small real Spring AMQP program, to exchange dead letters with.
//!
//! The program (in `java/spring-amqp`) is built as that of [`Spring`](crate::Spring) is, and runs in one of three modes:
//!
//! ```no_run
//! use testkit::{Services, SpringAmqp};
//!
//! let services = Services::connect();
//! let Some(rabbitmq) = services.rabbitmq() else { return };
//! let Some(spring) = SpringAmqp::reading(&services, rabbitmq.address(), "orders.dlq") else { return };
//! let message = spring.message();
//! println!("{:?} {:?}", message.body, message.header("x-retry-attempt"));
//! ```
//!
//! Like an assertion, everything here panics when it does not hold. It blocks: off the async threads, please.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::Headers;
use serde::{Deserialize, Deserializer};

use crate::Services;
use crate::java::Java;

/// A running Spring AMQP program. It ends when dropped, and with this process however that ends.
#[derive(Debug)]
pub struct SpringAmqp(Java);

/// A message as Spring's listener was given it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SpringMessage {
    /// The queue that it was read from.
    pub queue: String,
    /// The exchange that it was published to; empty for the default one.
    pub exchange: String,
    /// The routing key that it was published with.
    pub routing_key: String,
    /// The property of this name.
    pub message_id: Option<String>,
    /// The property of this name.
    pub content_type: Option<String>,
    /// The body.
    #[serde(deserialize_with = "base64")]
    pub body: Vec<u8>,
    /// The headers.
    pub headers: Vec<SpringMessageHeader>,
}

/// A header as Spring's listener was given it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SpringMessageHeader {
    /// The name.
    pub name: String,
    /// What Java holds it as.
    pub class: Option<String>,
    /// The value as Java shows it; a list or a table as JSON.
    pub text: Option<String>,
}

impl SpringMessage {
    /// The value of a header, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|header| header.name == name)?.text.as_deref()
    }

    /// The headers as Redrive has them.
    pub fn to_headers(&self) -> Headers {
        let mut headers = Headers::with_capacity(self.headers.len());
        for header in &self.headers {
            headers.push_header(header.name.as_str(), header.text.clone().map(Into::into));
        }
        headers
    }
}

impl SpringAmqp {
    /// A listener that reads a queue, which has to be there, and gives every message.
    ///
    /// # Panics
    /// As [`Services::rabbitmq`] does, and when the program does not start.
    pub fn reading(services: &Services, address: &str, queue: &str) -> Option<Self> {
        Self::start(services, "read", address, queue)
    }

    /// A listener that fails with every message. After its third attempt Spring publishes each to `<queue>-dead`, with the
    /// exception in its headers. Both queues are made when they are missing, and so is the exchange `<queue>-in`, which
    /// takes `order.#` to the queue.
    ///
    /// # Panics
    /// As [`reading`](Self::reading) does.
    pub fn republishing(services: &Services, address: &str, queue: &str) -> Option<Self> {
        Self::start(services, "republish", address, queue)
    }

    /// A listener that rejects every message: the broker takes each to `<queue>-dead` and writes its `x-death`. Queues and
    /// exchange are made as those of [`republishing`](Self::republishing).
    ///
    /// # Panics
    /// As [`reading`](Self::reading) does.
    pub fn rejecting(services: &Services, address: &str, queue: &str) -> Option<Self> {
        Self::start(services, "reject", address, queue)
    }

    fn start(services: &Services, mode: &str, address: &str, queue: &str) -> Option<Self> {
        let class_path = services.program("spring-amqp")?;
        Some(Self(Java::start(&class_path, "redrive.SpringAmqp", &[mode, address, queue])))
    }

    /// The next message that the listener was given; waits for it.
    ///
    /// # Panics
    /// When none comes within three minutes, or the program ends.
    pub fn message(&self) -> SpringMessage {
        self.0.next()
    }
}

fn base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}
