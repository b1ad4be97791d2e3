//! A small real Spring Kafka program, to exchange dead letters with.
//!
//! What another framework reads and writes is best asked of itself. The program (in `java/spring`) is built once, by
//! the supervisor of the servers, and runs in one of four modes, each with a listener of its own group:
//!
//! ```no_run
//! use testkit::{Services, Spring};
//!
//! let services = Services::connect();
//! let Some(kafka) = services.kafka() else { return };
//! let Some(spring) = Spring::reading(&services, kafka.address(), "orders.dlq") else { return };
//! let record = spring.record();
//! println!("{:?} {:?}", record.value, record.header("x-retry-attempt"));
//! ```
//!
//! Like an assertion, everything here panics when it does not hold. It blocks: off the async threads, please.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_core::Headers;
use serde::{Deserialize, Deserializer};

use crate::Services;
use crate::java::Java;

/// A running Spring Kafka program. It ends when dropped, and with this process however that ends.
#[derive(Debug)]
pub struct Spring(Java);

/// A record as Spring's listener was given it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SpringRecord {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
    /// The timestamp, in unix milliseconds.
    pub timestamp: i64,
    /// The key.
    #[serde(deserialize_with = "base64")]
    pub key: Option<Vec<u8>>,
    /// The value.
    #[serde(deserialize_with = "base64")]
    pub value: Option<Vec<u8>>,
    /// The headers, in their order.
    pub headers: Vec<SpringHeader>,
}

/// A header as Spring's listener was given it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SpringHeader {
    /// The name.
    pub name: String,
    /// The value as text, as Java reads it.
    pub text: Option<String>,
    /// The value.
    #[serde(rename = "base64", deserialize_with = "base64")]
    pub value: Option<Vec<u8>>,
}

impl SpringRecord {
    /// The last value of a header, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().rev().find(|header| header.name == name)?.text.as_deref()
    }

    /// The headers as Redrive has them.
    pub fn to_headers(&self) -> Headers {
        let mut headers = Headers::with_capacity(self.headers.len());
        for header in &self.headers {
            headers.push_header(header.name.as_str(), header.value.clone().map(Into::into));
        }
        headers
    }
}

impl Spring {
    /// A listener that reads a topic from its beginning and gives every record that is committed.
    ///
    /// # Panics
    /// As [`Services::kafka`] does, and when the program does not start.
    pub fn reading(services: &Services, bootstrap: &str, topic: &str) -> Option<Self> {
        Self::start(services, "read", bootstrap, topic)
    }

    /// A listener that fails with every record. After its third attempt each goes to `<topic>-dlt`. Both topics are
    /// created when they are missing.
    ///
    /// # Panics
    /// As [`reading`](Self::reading) does.
    pub fn failing(services: &Services, bootstrap: &str, topic: &str) -> Option<Self> {
        Self::start(services, "fail", bootstrap, topic)
    }

    /// A listener with retry topics that fails with every record: twice in `<topic>-retry`, then it goes to
    /// `<topic>-dlt`. The topics are created when they are missing.
    ///
    /// # Panics
    /// As [`reading`](Self::reading) does.
    pub fn retrying(services: &Services, bootstrap: &str, topic: &str) -> Option<Self> {
        Self::start(services, "retry", bootstrap, topic)
    }

    /// A listener that expects a number of four bytes as key and as value. What is none goes to `<topic>-dlt`, with
    /// Spring's serialized error among its headers. Both topics are created when they are missing.
    ///
    /// # Panics
    /// As [`reading`](Self::reading) does.
    pub fn deserializing(services: &Services, bootstrap: &str, topic: &str) -> Option<Self> {
        Self::start(services, "deserialize", bootstrap, topic)
    }

    /// How long a listener that does nothing takes over so many records of a topic, from the first to the last, with a JVM
    /// as it is by default.
    ///
    /// # Panics
    /// As [`reading`](Self::reading) does.
    pub fn counting(services: &Services, bootstrap: &str, topic: &str, records: u64) -> Option<Duration> {
        #[derive(Deserialize)]
        struct Took {
            nanos: u64,
        }
        let class_path = services.program("spring")?;
        let arguments = ["count", bootstrap, topic, &group("count"), &records.to_string()];
        let java = Java::start_with(&["-Xmx1g"], &class_path, "redrive.Spring", &arguments);
        let Took { nanos } = java.next();
        Some(Duration::from_nanos(nanos))
    }

    fn start(services: &Services, mode: &str, bootstrap: &str, topic: &str) -> Option<Self> {
        let class_path = services.program("spring")?;
        Some(Self(Java::start(&class_path, "redrive.Spring", &[mode, bootstrap, topic, &group(mode)])))
    }

    /// The next record that the listener was given; waits for it.
    ///
    /// # Panics
    /// When none comes within three minutes, or the program ends.
    pub fn record(&self) -> SpringRecord {
        self.0.next()
    }
}

/// A group of its own each time: what an earlier one has read is there again.
fn group(mode: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("spring-{mode}-{}-{}", std::process::id(), now.as_nanos())
}

fn base64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| STANDARD.decode(text).map_err(serde::de::Error::custom)).transpose()
}
