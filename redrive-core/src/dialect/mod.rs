//! Dead letters that other systems wrote: what their headers say, in one form.
//!
//! A dead-letter topic or queue is rarely the work of one program. Each framework leaves its own headers, in its own
//! names and encodings; here is one small module for each. Nothing in a header is believed: lengths, ranges and text
//! are checked, what cannot be read is passed over, and reading never fails. Headers that no module knows are left
//! alone.
//!
//! ```
//! use redrive_core::{Headers, dialect::{ForeignFailure, Writer}};
//!
//! let mut headers = Headers::new();
//! headers.push("kafka_dlt-original-topic", "orders");
//! headers.push("kafka_dlt-original-partition", 3_i32.to_be_bytes().to_vec());
//! headers.push("kafka_dlt-exception-fqcn", "java.net.SocketTimeoutException");
//!
//! let failure = ForeignFailure::read(&headers).unwrap();
//! assert_eq!(failure.writer, Writer::SpringKafka);
//! assert_eq!(failure.origin.partition, Some(3));
//! ```

mod chain;
mod finding;
mod kafka_connect;
mod kafka_share;
mod kafka_streams;
mod masstransit;
mod nservicebus;
mod rabbitmq;
mod spring_amqp;
mod spring_cloud_stream;
mod spring_deserializer;
mod spring_kafka;
mod spring_retry;
mod values;
mod wolverine;
mod writer;

use serde::Serialize;

pub use finding::Finding;
pub use rabbitmq::{Death, MAX_DEATHS};
pub use spring_deserializer::{SerializedError, SerializedErrors};
pub use writer::Writer;

use crate::headers::Origin;
use crate::{ErrorLink, Headers, Text, Timestamp};

/// What the headers of another system's dead letter say. Every value is within its bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForeignFailure {
    /// Who wrote the headers.
    pub writer: Writer,
    /// Where the message was when it failed.
    pub origin: ForeignOrigin,
    /// How often it was tried, as far as the writer counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// When it failed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_failed_at: Option<Timestamp>,
    /// When it failed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Timestamp>,
    /// When the writer would have tried it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// The errors, outermost first, at most [`MAX_CHAIN`](crate::MAX_CHAIN) of them.
    pub chain: Vec<ErrorLink>,
    /// The beginning of the stack trace, at most [`MAX_TEXT`](crate::MAX_TEXT) bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<Text>,
    /// The part of the other system that failed: a connector and its task, an endpoint, a consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component: Option<Text>,
    /// The message's type, where the writer names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_type: Option<Text>,
    /// Serialized Java objects among the headers. They are never decoded.
    #[serde(skip_serializing_if = "SerializedErrors::is_empty")]
    pub serialized: SerializedErrors,
}

/// Where a message was when it failed elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ForeignOrigin {
    /// The topic or queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Text>,
    /// The partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
    /// The offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    /// When it was published there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// The consumer group or share group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Text>,
    /// The exchange, on RabbitMQ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Text>,
    /// The routing key, on RabbitMQ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing_key: Option<Text>,
}

impl ForeignOrigin {
    /// As Redrive's own headers tell it.
    pub fn to_origin(&self) -> Origin {
        Origin {
            topic: self.name.clone(),
            partition: self.partition,
            offset: self.offset,
            timestamp: self.timestamp,
        }
    }
}

/// One writer's headers: which are its own, and how they are read.
struct Dialect {
    owns: fn(&str) -> bool,
    read: fn(&Headers) -> Option<ForeignFailure>,
}

/// Where two share a name, the one that can tell its own by more than the name comes first.
const DIALECTS: [Dialect; 10] = [
    Dialect { owns: spring_kafka::owns, read: spring_kafka::read },
    Dialect { owns: spring_retry::owns, read: spring_retry::read },
    Dialect { owns: spring_cloud_stream::owns, read: spring_cloud_stream::read },
    Dialect { owns: kafka_connect::owns, read: kafka_connect::read },
    Dialect { owns: kafka_streams::owns, read: kafka_streams::read },
    Dialect { owns: kafka_share::owns, read: kafka_share::read },
    Dialect { owns: spring_amqp::owns, read: spring_amqp::read },
    Dialect { owns: nservicebus::owns, read: nservicebus::read },
    Dialect { owns: masstransit::owns, read: masstransit::read },
    Dialect { owns: wolverine::owns, read: wolverine::read },
];

impl ForeignFailure {
    /// Reads the dead-letter headers of another system; nothing when there are none.
    ///
    /// Of several values of a name the last counts. A message that has been dead-lettered by several systems is
    /// read in the dialect of the last one, whose headers stand last. `x-death` is read when it is the JSON form
    /// of [`Death`]s.
    pub fn read(headers: &Headers) -> Option<Self> {
        Self::read_with_deaths(headers, &rabbitmq::from_json(headers))
    }

    /// The same for a message whose `x-death` the broker's adapter has already read, newest first.
    pub fn read_with_deaths(headers: &Headers, deaths: &[Death]) -> Option<Self> {
        let serialized = spring_deserializer::read(headers);
        let told = Self::last_told(headers);
        let mut failure = match rabbitmq::read(headers, deaths) {
            Some(death) => told.map_or(death.clone(), |told| told.completed_by(death)),
            None => told.or_else(|| spring_deserializer::alone(&serialized))?,
        };
        failure.serialized = serialized;
        Some(failure)
    }

    /// The dialect whose header stands last and that can be read.
    fn last_told(headers: &Headers) -> Option<Self> {
        let mut last: [Option<usize>; DIALECTS.len()] = [None; DIALECTS.len()];
        for (place, header) in headers.iter().enumerate() {
            for (dialect, seen) in DIALECTS.iter().zip(&mut last) {
                if (dialect.owns)(header.name.as_str()) {
                    *seen = Some(place);
                }
            }
        }
        let mut present: Vec<_> =
            DIALECTS.iter().zip(last).filter_map(|(dialect, seen)| Some((seen?, dialect))).collect();
        present.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        present.iter().find_map(|(_, dialect)| (dialect.read)(headers))
    }

    /// A failure of that writer of which nothing is known yet.
    fn of(writer: Writer) -> Self {
        Self {
            writer,
            origin: ForeignOrigin::default(),
            attempts: None,
            first_failed_at: None,
            failed_at: None,
            due_at: None,
            chain: Vec::new(),
            stack_trace: None,
            component: None,
            message_type: None,
            serialized: SerializedErrors::default(),
        }
    }

    /// What a library wrote says more than what the broker under it wrote, which fills the gaps.
    fn completed_by(mut self, broker: Self) -> Self {
        let (own, other) = (&mut self.origin, broker.origin);
        own.name = own.name.take().or(other.name);
        own.exchange = own.exchange.take().or(other.exchange);
        own.routing_key = own.routing_key.take().or(other.routing_key);
        self.attempts = self.attempts.or(broker.attempts);
        self.first_failed_at = self.first_failed_at.or(broker.first_failed_at);
        self.failed_at = self.failed_at.or(broker.failed_at);
        if self.chain.is_empty() {
            self.chain = broker.chain;
        }
        self
    }

    /// Where the body is, when the writer may have left it out: topic, partition and offset.
    ///
    /// A share group writes its dead letters without a body unless told otherwise. A record that has one needs no
    /// second look.
    pub fn body_at(&self) -> Option<(&str, i32, i64)> {
        if self.writer != Writer::KafkaShareGroup {
            return None;
        }
        Some((self.origin.name.as_deref()?, self.origin.partition?, self.origin.offset?))
    }
}
