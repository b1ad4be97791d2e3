//! Where messages come from: an embedded queue, Kafka topics, a RabbitMQ or a PostgreSQL queue.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use redrive_core::TextError;

use super::authority::{Parts, encode, host_and_port};
use super::{AmqpAddress, Secret};

const EXPECTED: &str = "queue:NAME, kafka://, amqp://, amqps:// or postgres://";

/// The address of a source.
///
/// ```
/// use redrive::address::SourceAddress;
///
/// let source: SourceAddress = "amqp://app:hunter2@rabbit:5672/prod?queue=orders".parse()?;
/// assert_eq!(source.to_string(), "amqp://app:***@rabbit:5672/prod?queue=orders");
///
/// let error = "kafka://localhost:9092".parse::<SourceAddress>().unwrap_err();
/// assert_eq!(error.to_string(), "expected `/` and a topic at character 23, found the end");
/// # Ok::<(), redrive::core::TextError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceAddress {
    /// `queue:orders`: a queue in the data file.
    Queue(String),
    /// `kafka://host:9092,host2:9092/orders?group=orders-worker`.
    Kafka(KafkaAddress),
    /// `amqp://user:pass@host:5672/vhost?queue=orders`.
    Amqp(AmqpAddress),
    /// `postgres://user@host/db?queue=orders`.
    Postgres(PostgresAddress),
}

/// Topics of Kafka, and the group that reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaAddress {
    /// `host`, `host:port`, or the name of a broker of the configuration.
    pub hosts: Vec<String>,
    /// The topics.
    pub topics: Vec<String>,
    /// The consumer group.
    pub group: Option<String>,
    /// Options for the client, by their own names. One of them may be a password.
    pub options: BTreeMap<String, Secret>,
}

/// A PostgreSQL database, and a queue in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresAddress {
    /// The user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// The host.
    pub host: String,
    /// The port.
    pub port: Option<u16>,
    /// The database.
    pub database: Option<String>,
    /// The queue; a data address has none.
    pub queue: Option<String>,
    /// Other parameters of the connection. One of them may be a password.
    pub options: BTreeMap<String, Secret>,
}

impl SourceAddress {
    /// The technology's name: `queue`, `kafka`, `rabbitmq` or `postgres`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Queue(_) => "queue",
            Self::Kafka(_) => "kafka",
            Self::Amqp(_) => "rabbitmq",
            Self::Postgres(_) => "postgres",
        }
    }
}

impl FromStr for SourceAddress {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(name) = text.strip_prefix("queue:") {
            return queue_name(text, "queue:".len(), name).map(Self::Queue);
        }
        let (scheme, rest_at) = match text.find("://") {
            Some(at) => (&text[..at], at + 3),
            None => return Err(TextError::new(text, 0, EXPECTED)),
        };
        match scheme {
            "kafka" => kafka(Parts::cut(text, rest_at)?).map(Self::Kafka),
            "amqp" | "amqps" => {
                let parts = Parts::cut(text, rest_at)?;
                let address = AmqpAddress::from_parts(&parts, scheme == "amqps")?;
                match address.queue {
                    Some(_) => Ok(Self::Amqp(address)),
                    None => Err(parts.end("`?queue=` and the queue's name")),
                }
            }
            "postgres" | "postgresql" => {
                let parts = Parts::cut(text, rest_at)?;
                let address = PostgresAddress::from_parts(&parts)?;
                match address.queue {
                    Some(_) => Ok(Self::Postgres(address)),
                    None => Err(parts.end("`?queue=` and the queue's name")),
                }
            }
            _ => Err(TextError::new(text, 0, EXPECTED)),
        }
    }
}

impl FromStr for PostgresAddress {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        for scheme in ["postgres://", "postgresql://"] {
            if text.starts_with(scheme) {
                return Self::from_parts(&Parts::cut(text, scheme.len())?);
            }
        }
        Err(TextError::new(text, 0, "postgres://"))
    }
}

impl PostgresAddress {
    fn from_parts(parts: &Parts<'_>) -> Result<Self, TextError> {
        let (host, port) = parts.host()?;
        let mut options = parts.parameters.clone();
        let queue = options.remove("queue").filter(|queue| !queue.is_empty());
        Ok(Self {
            user: parts.user.clone(),
            password: parts.password.clone(),
            host,
            port,
            database: parts.path.filter(|path| !path.is_empty()).map(super::authority::decode),
            queue,
            options: secret(options),
        })
    }
}

fn kafka(parts: Parts<'_>) -> Result<KafkaAddress, TextError> {
    let mut hosts = Vec::new();
    let mut at = parts.host_at;
    for host in parts.hosts.split(',') {
        host_and_port(parts.text, at, host)?;
        hosts.push(host.to_owned());
        at += host.len() + 1;
    }
    let path = parts.path.filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| TextError::new(parts.text, parts.path_at, "`/` and a topic"))?;
    let mut topics = Vec::new();
    let mut at = parts.path_at;
    for topic in path.split(',') {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if topic.is_empty() || topic.len() > 249 || !topic.chars().all(allowed) {
            return Err(TextError::new(parts.text, at, "a topic of a-z, A-Z, 0-9, `.`, `_` and `-`"));
        }
        topics.push(topic.to_owned());
        at += topic.len() + 1;
    }
    let mut options = parts.parameters;
    let group = options.remove("group").filter(|group| !group.is_empty());
    Ok(KafkaAddress { hosts, topics, group, options: secret(options) })
}

fn secret(options: BTreeMap<String, String>) -> BTreeMap<String, Secret> {
    options.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()
}

fn queue_name(text: &str, at: usize, name: &str) -> Result<String, TextError> {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    match name.char_indices().find(|(_, c)| !allowed(*c)) {
        Some((i, _)) => {
            Err(TextError::new(text, at + i, "letters, digits, `.`, `_` and `-` in a queue's name"))
        }
        None if name.is_empty() || name.len() > 200 => Err(TextError::new(text, at, "a queue's name")),
        None => Ok(name.to_owned()),
    }
}

impl fmt::Display for SourceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue:{name}"),
            Self::Kafka(kafka) => {
                write!(f, "kafka://{}/{}", kafka.hosts.join(","), kafka.topics.join(","))?;
                let group = kafka.group.iter().map(|group| ("group", group.as_str()));
                let options = kafka.options.keys().map(|name| (name.as_str(), "***"));
                parameters(f, group.chain(options))
            }
            Self::Amqp(amqp) => amqp.fmt(f),
            Self::Postgres(postgres) => {
                f.write_str("postgres://")?;
                let (user, password) = (postgres.user.as_deref(), postgres.password.as_ref());
                authority(f, user, password, &postgres.host, postgres.port)?;
                if let Some(database) = &postgres.database {
                    write!(f, "/{}", encode(database))?;
                }
                let queue = postgres.queue.iter().map(|queue| ("queue", queue.as_str()));
                parameters(f, queue.chain(postgres.options.keys().map(|name| (name.as_str(), "***"))))
            }
        }
    }
}

pub(super) fn authority(
    f: &mut fmt::Formatter<'_>,
    user: Option<&str>,
    password: Option<&Secret>,
    host: &str,
    port: Option<u16>,
) -> fmt::Result {
    if let Some(user) = user {
        write!(f, "{}", encode(user))?;
        if let Some(password) = password {
            write!(f, ":{password}")?;
        }
        f.write_str("@")?;
    }
    f.write_str(host)?;
    port.map_or(Ok(()), |port| write!(f, ":{port}"))
}

pub(super) fn parameters<'a>(
    f: &mut fmt::Formatter<'_>,
    all: impl Iterator<Item = (&'a str, &'a str)>,
) -> fmt::Result {
    for (i, (name, value)) in all.enumerate() {
        let value = if value == "***" { value.to_owned() } else { encode(value) };
        write!(f, "{}{}={value}", if i == 0 { '?' } else { '&' }, encode(name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrong(text: &str) -> String {
        text.parse::<SourceAddress>().unwrap_err().to_string()
    }

    #[test]
    fn reads_every_form_of_the_documentation() {
        for text in [
            "queue:orders",
            "kafka://host:9092,host2:9092/orders?group=orders-worker",
            "kafka://main/orders,returns?group=w",
            "amqps://host:5672/vhost?queue=orders",
            "amqp://host/vhost?queue=orders&heartbeat=30&prefetch=64",
            "amqps://host?queue=orders&cacertfile=ca.pem&certfile=me.pem&connection_timeout=2000&keyfile=me.key",
            "postgres://user@host/db?queue=orders",
            "postgres://user@[::1]:5433/db?queue=orders",
        ] {
            assert_eq!(text.parse::<SourceAddress>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn prints_no_secret() {
        for text in [
            "amqp://app:hunter2@rabbit/?queue=orders",
            "postgres://app:hunter2@db/redrive?queue=orders",
            "kafka://k:9092/orders?sasl.password=hunter2",
        ] {
            let address = text.parse::<SourceAddress>().unwrap();
            assert!(!address.to_string().contains("hunter2"), "{address}");
            assert!(!format!("{address:?}").contains("hunter2"), "{address:?}");
        }
    }

    #[test]
    fn says_where_an_address_is_wrong() {
        insta::assert_snapshot!(
            [
                "",
                "orders",
                "kafka://",
                "kafka://k:0/orders",
                "kafka://k/or ders",
                "kafka://k/a,?group=w",
                "amqp://host/v",
                "amqp://host?queue=q&x=1",
                "amqp://host?queue=q&heartbeat=soon",
                "amqp://host?queue=q&prefetch=70000",
                "amqp://host?queue=q&certfile=",
                "queue:a b",
                "postgres://?queue=q",
                "kafka://k/t?group"
            ]
            .map(|text| format!("{text}: {}", wrong(text)))
            .join("\n")
        );
    }

    proptest! {
        #[test]
        fn no_text_panics_the_parser(text in any::<String>(), scheme in "(kafka|amqp|postgres)://|queue:|") {
            let _ = format!("{scheme}{text}").parse::<SourceAddress>().map(|address| address.to_string());
        }
    }
}
