//! Who writes dead letters that Redrive can read.

use std::fmt;

use serde::{Serialize, Serializer};

/// A system that writes dead-letter headers of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Writer {
    /// Spring Kafka's dead-letter recoverer.
    SpringKafka,
    /// Spring Kafka's retry topics, and the dead-letter topic at their end.
    SpringKafkaRetry,
    /// Spring Kafka's error-handling deserializer, when nobody else wrote anything.
    SpringDeserializer,
    /// Spring Cloud Stream's Kafka binder.
    SpringCloudStream,
    /// Kafka Connect.
    KafkaConnect,
    /// Kafka Streams.
    KafkaStreams,
    /// Kafka's share groups.
    KafkaShareGroup,
    /// RabbitMQ itself.
    RabbitMq,
    /// Spring AMQP's republishing recoverer.
    SpringAmqp,
    /// NServiceBus.
    NServiceBus,
    /// MassTransit.
    MassTransit,
    /// Wolverine.
    Wolverine,
}

impl Writer {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::SpringKafka,
        Self::SpringKafkaRetry,
        Self::SpringDeserializer,
        Self::SpringCloudStream,
        Self::KafkaConnect,
        Self::KafkaStreams,
        Self::KafkaShareGroup,
        Self::RabbitMq,
        Self::SpringAmqp,
        Self::NServiceBus,
        Self::MassTransit,
        Self::Wolverine,
    ];

    /// The name, as it stands in the ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SpringKafka => "spring-kafka",
            Self::SpringKafkaRetry => "spring-kafka-retry",
            Self::SpringDeserializer => "spring-deserializer",
            Self::SpringCloudStream => "spring-cloud-stream",
            Self::KafkaConnect => "kafka-connect",
            Self::KafkaStreams => "kafka-streams",
            Self::KafkaShareGroup => "kafka-share-group",
            Self::RabbitMq => "rabbitmq",
            Self::SpringAmqp => "spring-amqp",
            Self::NServiceBus => "nservicebus",
            Self::MassTransit => "masstransit",
            Self::Wolverine => "wolverine",
        }
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Writer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
