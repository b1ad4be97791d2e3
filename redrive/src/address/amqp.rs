//! A queue of RabbitMQ. The parameters are those of RabbitMQ's own addresses, so that one can be taken over as it is.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use redrive_core::TextError;

use super::Secret;
use super::authority::{Parts, decode, encode};
use super::source::{authority, parameters};

const KNOWN: &str =
    "no parameter but queue, prefetch, heartbeat, connection_timeout, cacertfile, certfile and keyfile";

/// A queue of RabbitMQ, or the server by itself.
///
/// ```
/// use redrive::address::AmqpAddress;
///
/// let broker: AmqpAddress = "amqps://app:hunter2@rabbit/prod?heartbeat=30".parse()?;
/// assert_eq!(broker.to_string(), "amqps://app:***@rabbit/prod?heartbeat=30");
/// # Ok::<(), redrive::core::TextError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmqpAddress {
    /// Whether the connection is encrypted (`amqps://`).
    pub tls: bool,
    /// The user.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// The host, or the name of a broker of the configuration.
    pub host: String,
    /// The port.
    pub port: Option<u16>,
    /// The virtual host.
    pub vhost: Option<String>,
    /// The queue; a broker's own address has none.
    pub queue: Option<String>,
    /// How many messages the broker hands out before it waits for an answer.
    pub prefetch: Option<u16>,
    /// How often each side shows that it is there; written in seconds.
    pub heartbeat: Option<Duration>,
    /// How long a connection may take to be made; written in milliseconds.
    pub connection_timeout: Option<Duration>,
    /// A file of certificates (PEM) that are trusted beside those of the usual authorities.
    pub cacertfile: Option<String>,
    /// A file with the client's own certificate (PEM).
    pub certfile: Option<String>,
    /// A file with the key to it (PEM).
    pub keyfile: Option<String>,
}

impl FromStr for AmqpAddress {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        for (scheme, tls) in [("amqp://", false), ("amqps://", true)] {
            if text.starts_with(scheme) {
                return Self::from_parts(&Parts::cut(text, scheme.len())?, tls);
            }
        }
        Err(TextError::new(text, 0, "amqp:// or amqps://"))
    }
}

impl AmqpAddress {
    pub(super) fn from_parts(parts: &Parts<'_>, tls: bool) -> Result<Self, TextError> {
        let (host, port) = parts.host()?;
        let mut given = Given { text: parts.text, all: parts.parameters.clone() };
        let address = Self {
            tls,
            user: parts.user.clone(),
            password: parts.password.clone(),
            host,
            port,
            vhost: parts.path.filter(|path| !path.is_empty()).map(decode),
            queue: given.all.remove("queue").filter(|queue| !queue.is_empty()),
            prefetch: given.number("prefetch", "a number from 1 to 65535", 1, u16::MAX)?,
            heartbeat: given
                .number("heartbeat", "seconds from 0 to 65535", 0, u16::MAX)?
                .map(|seconds| Duration::from_secs(seconds.into())),
            connection_timeout: given
                .number("connection_timeout", "milliseconds from 1 to 3600000", 1, 3_600_000_u32)?
                .map(|millis| Duration::from_millis(millis.into())),
            cacertfile: given.file("cacertfile")?,
            certfile: given.file("certfile")?,
            keyfile: given.file("keyfile")?,
        };
        match given.all.keys().next() {
            Some(name) => Err(given.wrong(name, KNOWN)),
            None => Ok(address),
        }
    }
}

/// The parameters that nobody has asked for yet.
struct Given<'a> {
    text: &'a str,
    all: BTreeMap<String, String>,
}

impl Given<'_> {
    fn wrong(&self, name: &str, expected: &str) -> TextError {
        let query = self.text.find('?').unwrap_or(0);
        let at = self.text[query..].find(&format!("{name}=")).map_or(query, |at| query + at);
        TextError::new(self.text, at, expected)
    }

    fn number<N: FromStr + PartialOrd>(
        &mut self,
        name: &str,
        expected: &str,
        least: N,
        most: N,
    ) -> Result<Option<N>, TextError> {
        let Some(text) = self.all.remove(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| self.wrong(name, expected))
    }

    fn file(&mut self, name: &str) -> Result<Option<String>, TextError> {
        match self.all.remove(name) {
            Some(file) if file.is_empty() => Err(self.wrong(name, "the name of a file")),
            file => Ok(file),
        }
    }
}

impl fmt::Display for AmqpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "amqps://" } else { "amqp://" })?;
        authority(f, self.user.as_deref(), self.password.as_ref(), &self.host, self.port)?;
        if let Some(vhost) = &self.vhost {
            write!(f, "/{}", encode(vhost))?;
        }
        let numbers = [
            ("connection_timeout", self.connection_timeout.map(|time| time.as_millis().to_string())),
            ("heartbeat", self.heartbeat.map(|time| time.as_secs().to_string())),
            ("prefetch", self.prefetch.map(|count| count.to_string())),
        ];
        let mut all: BTreeMap<&str, &str> = BTreeMap::new();
        let files =
            [("cacertfile", &self.cacertfile), ("certfile", &self.certfile), ("keyfile", &self.keyfile)];
        all.extend(files.iter().filter_map(|(name, file)| Some((*name, file.as_deref()?))));
        all.extend(numbers.iter().filter_map(|(name, number)| Some((*name, number.as_deref()?))));
        parameters(f, self.queue.iter().map(|queue| ("queue", queue.as_str())).chain(all))
    }
}
