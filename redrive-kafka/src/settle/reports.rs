//! What became of records that were sent.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Message as _};

use crate::copy::Copy;
use crate::record;

/// Where a record lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// The partition.
    pub(crate) partition: i32,
    /// The offset.
    pub(crate) offset: i64,
}

/// What became of one record.
pub(crate) type Report = Result<Place, KafkaError>;

#[derive(Debug)]
struct Open {
    reports: Vec<Option<Report>>,
    missing: usize,
    failed: bool,
}

/// The reports on the records of one batch, as they come.
#[derive(Debug)]
pub(crate) struct Reports {
    open: Mutex<Open>,
    changed: Condvar,
}

impl Reports {
    pub(crate) fn new(records: usize) -> Arc<Self> {
        let open = Open { reports: vec![None; records], missing: records, failed: false };
        Arc::new(Self { open: Mutex::new(open), changed: Condvar::new() })
    }

    fn put(&self, place: usize, report: Report) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.failed |= report.is_err();
        if let Some(slot @ None) = open.reports.get_mut(place) {
            *slot = Some(report);
            open.missing -= 1;
        }
        if open.missing == 0 || open.failed {
            self.changed.notify_all();
        }
    }

    /// Waits until there is a report on each, or so long; and only so long after one has failed. What there is no report
    /// on has failed as well.
    pub(crate) fn wait(&self, most: Duration, after_failure: Duration) -> Vec<Report> {
        let begun = Instant::now();
        let mut failed_at = None;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if open.failed && failed_at.is_none() {
                failed_at = Some(Instant::now());
            }
            let end = failed_at.map_or(begun + most, |at| (at + after_failure).min(begun + most));
            let left = end.saturating_duration_since(Instant::now());
            if open.missing == 0 || left.is_zero() {
                break;
            }
            open = self.changed.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        let missing = || Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut));
        open.reports.iter().map(|report| report.clone().unwrap_or_else(missing)).collect()
    }
}

/// Brings the reports home.
#[derive(Debug, Default, Clone)]
pub(crate) struct Home;

impl ClientContext for Home {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "the client reports an error");
    }
}

impl ProducerContext for Home {
    type DeliveryOpaque = Box<(Arc<Reports>, usize)>;

    fn delivery(&self, result: &DeliveryResult<'_>, to: Self::DeliveryOpaque) {
        let (reports, place) = *to;
        reports.put(
            place,
            match result {
                Ok(record) => Ok(Place { partition: record.partition(), offset: record.offset() }),
                Err((error, _)) => Err(error.clone()),
            },
        );
    }
}

/// A producer whose reports come home by themselves.
pub(crate) type Producer = ThreadedProducer<Home>;

/// Gives records to the producer. One that it does not take is reported at once; while it is full, it is waited for.
pub(crate) fn send<'a>(
    producer: impl Fn(&'a Copy) -> &'a Producer,
    copies: impl Iterator<Item = &'a Copy>,
    reports: &Arc<Reports>,
    patience: Duration,
) {
    let end = Instant::now() + patience;
    for (place, copy) in copies.enumerate() {
        let mut to = Box::new((Arc::clone(reports), place));
        loop {
            let mut one: BaseRecord<'_, [u8], [u8], _> = BaseRecord::with_opaque_to(&copy.topic, to);
            one.partition = copy.partition;
            one.key = copy.key.as_deref();
            one.payload = copy.body.as_deref();
            one.timestamp = copy.timestamp;
            if !copy.headers.is_empty() {
                one = one.headers(record::to_kafka(&copy.headers));
            }
            match producer(copy).send(one) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back))
                    if Instant::now() < end =>
                {
                    to = back.delivery_opaque;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err((error, _)) => {
                    reports.put(place, Err(error));
                    break;
                }
            }
        }
    }
}
