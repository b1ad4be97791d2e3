//! Spring Kafka's dead-letter recoverer: `kafka_dlt-…`, numbers as big-endian integers.

use super::chain::Told;
use super::{ForeignFailure, ForeignOrigin, Writer, values};
use crate::Headers;

const GROUP: &str = "kafka_dlt-original-consumer-group";
/// Set for listeners that ask for it, and carried over: this delivery's number.
const DELIVERY_ATTEMPT: &str = "kafka_deliveryAttempt";

/// The recoverer's names, one set for dead letters and one for retries.
pub(super) struct Names {
    pub(super) topic: &'static str,
    pub(super) partition: &'static str,
    pub(super) offset: &'static str,
    pub(super) timestamp: &'static str,
    pub(super) cause: &'static str,
    pub(super) value: ErrorNames,
    pub(super) key: ErrorNames,
}

/// The names that tell one error.
pub(super) struct ErrorNames {
    pub(super) kind: &'static str,
    pub(super) message: &'static str,
    pub(super) trace: &'static str,
}

const NAMES: Names = Names {
    topic: "kafka_dlt-original-topic",
    partition: "kafka_dlt-original-partition",
    offset: "kafka_dlt-original-offset",
    timestamp: "kafka_dlt-original-timestamp",
    cause: "kafka_dlt-exception-cause-fqcn",
    value: ErrorNames {
        kind: "kafka_dlt-exception-fqcn",
        message: "kafka_dlt-exception-message",
        trace: "kafka_dlt-exception-stacktrace",
    },
    key: ErrorNames {
        kind: "kafka_dlt-key-exception-fqcn",
        message: "kafka_dlt-key-exception-message",
        trace: "kafka_dlt-key-exception-stacktrace",
    },
};

/// The group's name is the same in retry topics and tells nothing.
pub(super) fn owns(name: &str) -> bool {
    name.starts_with("kafka_dlt-") && name != GROUP
}

pub(super) fn read(headers: &Headers) -> Option<ForeignFailure> {
    let mut failure = read_names(headers, &NAMES, Writer::SpringKafka)?;
    failure.attempts = values::binary_partition(headers, DELIVERY_ATTEMPT)
        .map(i32::cast_unsigned)
        .filter(|attempts| *attempts > 0);
    Some(failure)
}

pub(super) fn read_names(headers: &Headers, names: &Names, writer: Writer) -> Option<ForeignFailure> {
    let mut failure = ForeignFailure::of(writer);
    failure.origin = ForeignOrigin {
        name: values::place(headers, names.topic),
        partition: values::binary_partition(headers, names.partition),
        offset: values::binary_offset(headers, names.offset),
        timestamp: values::binary_time(headers, names.timestamp),
        group: values::id(headers, GROUP),
        ..ForeignOrigin::default()
    };
    let mut cause = values::text(headers, names.cause);
    for error in [&names.value, &names.key] {
        let told = Told {
            kind: values::text(headers, error.kind),
            message: values::text(headers, error.message),
            cause: None,
            trace: values::text(headers, error.trace),
        };
        if !told.is_empty() {
            // There is one name for the cause, whichever of the two it belongs to.
            Told { cause: cause.take(), ..told }.add_to(&mut failure);
        }
    }
    (failure.origin.name.is_some() || !failure.chain.is_empty()).then_some(failure)
}
