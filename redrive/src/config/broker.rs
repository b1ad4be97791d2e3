//! A broker that flows refer to by name, so that hosts and credentials stand in one place.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::AddressText;

/// A broker: exactly one of its keys is given.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Broker {
    /// A Kafka cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kafka: Option<Kafka>,
    /// A RabbitMQ server or cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rabbitmq: Option<RabbitMq>,
}

/// A Kafka cluster. `Debug` shows the names of its options alone, since one may be a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kafka {
    /// Hosts and ports, separated by commas.
    pub bootstrap: String,
    /// Options of librdkafka, by their own names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// A file that holds the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<String>,
    /// An environment variable that holds the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
}

/// A RabbitMQ server or cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RabbitMq {
    /// `amqp://` or `amqps://`, host and virtual host.
    pub url: AddressText,
    /// A file that holds the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<String>,
    /// An environment variable that holds the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_env: Option<String>,
}

impl fmt::Debug for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kafka")
            .field("bootstrap", &self.bootstrap)
            .field("options", &self.options.keys())
            .field("password_file", &self.password_file)
            .field("password_env", &self.password_env)
            .finish()
    }
}

impl Broker {
    /// The technology's name, when exactly one is given.
    pub fn kind(&self) -> Option<&'static str> {
        match (&self.kafka, &self.rabbitmq) {
            (Some(_), None) => Some("kafka"),
            (None, Some(_)) => Some("rabbitmq"),
            _ => None,
        }
    }
}
