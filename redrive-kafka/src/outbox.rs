//! What is published, and copies of what was not read here: written by a producer of its own, without a transaction.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::error::KafkaError;

use crate::client;
use crate::copy::Copy;
use crate::options::KafkaFlow;
use crate::producers::Producers;
use crate::settle::{Reports, send};

/// How long records may take to be acknowledged.
const DELIVERY: Duration = Duration::from_secs(12);

/// Where a record lies, or why it was not taken.
pub(crate) type Written = Result<(i32, i64), KafkaError>;

/// Writes records and waits until they are durable.
pub(crate) struct Outbox {
    producers: Mutex<Producers>,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").finish_non_exhaustive()
    }
}

impl Outbox {
    pub(crate) fn new(flow: &KafkaFlow) -> Self {
        Self { producers: Mutex::new(Producers::new(flow)) }
    }

    /// Writes these; where each lies, or why not. Blocks.
    pub(crate) fn write(&self, copies: &[Copy]) -> Result<Vec<Written>, KafkaError> {
        let producers = self.producers.lock().unwrap_or_else(PoisonError::into_inner).get()?;
        let reports = Reports::new(copies.len());
        send(|copy| producers.of(&copy.topic), copies.iter(), &reports, client::ANSWER);
        let answers = reports.wait(DELIVERY, DELIVERY);
        Ok(answers.into_iter().map(|one| one.map(|place| (place.partition, place.offset))).collect())
    }
}
