//! What is published, and copies of what was not read here: written by a producer of its own, without a transaction.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::client;
use crate::copy::Copy;
use crate::options::KafkaFlow;
use crate::producers::{InForce, Producers};
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
        let mut written = write_to(&producers, copies);
        if copies.len() > 1 {
            // The broker refuses what was sent together as a whole: each by itself shows which one is meant.
            for (copy, one) in copies.iter().zip(&mut written).filter(|(_, one)| is_too_large(one)) {
                if let Some(alone) = write_to(&producers, std::slice::from_ref(copy)).pop() {
                    *one = alone;
                }
            }
        }
        Ok(written)
    }
}

fn write_to(producers: &InForce, copies: &[Copy]) -> Vec<Written> {
    let reports = Reports::new(copies.len());
    send(|copy| producers.of(&copy.topic), copies.iter(), &reports, client::ANSWER);
    let answers = reports.wait(DELIVERY, DELIVERY);
    answers.into_iter().map(|one| one.map(|place| (place.partition, place.offset))).collect()
}

fn is_too_large(written: &Written) -> bool {
    use RDKafkaErrorCode as Code;
    let code = written.as_ref().err().and_then(KafkaError::rdkafka_error_code);
    matches!(code, Some(Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize))
}
