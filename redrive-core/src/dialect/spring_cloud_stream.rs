//! Spring Cloud Stream's Kafka binder: `x-original-…` and `x-exception-…`.
//!
//! Redrive itself writes `x-original-topic`, `-partition`, `-offset` and `-timestamp`, as text. The binder's numbers
//! are big-endian integers, which text never is. Its topic is taken with its numbers, or with its error when there
//! are no numbers at all.

use super::chain::Told;
use super::{ForeignFailure, ForeignOrigin, Writer, values};
use crate::Headers;

const TOPIC: &str = "x-original-topic";
const PARTITION: &str = "x-original-partition";
const OFFSET: &str = "x-original-offset";
const TIMESTAMP: &str = "x-original-timestamp";
const TIMESTAMP_TYPE: &str = "x-original-timestamp-type";
const KIND: &str = "x-exception-fqcn";
const MESSAGE: &str = "x-exception-message";
const TRACE: &str = "x-exception-stacktrace";

pub(super) fn owns(name: &str) -> bool {
    matches!(name, TOPIC | PARTITION | OFFSET | TIMESTAMP | TIMESTAMP_TYPE | KIND | MESSAGE | TRACE)
}

pub(super) fn read(headers: &Headers) -> Option<ForeignFailure> {
    let numbers = [(PARTITION, 4), (OFFSET, 8), (TIMESTAMP, 8)].map(|(name, width)| {
        let value = headers.get(name)?;
        Some(values::is_binary(value, width))
    });
    let binary = numbers.contains(&Some(true));
    let kind = values::text(headers, KIND);
    if !binary && kind.is_none() {
        return None;
    }
    let mut failure = ForeignFailure::of(Writer::SpringCloudStream);
    if binary || numbers == [None; 3] {
        failure.origin = ForeignOrigin {
            name: values::place(headers, TOPIC),
            partition: (numbers[0] == Some(true))
                .then(|| values::binary_partition(headers, PARTITION))
                .flatten(),
            offset: (numbers[1] == Some(true)).then(|| values::binary_offset(headers, OFFSET)).flatten(),
            timestamp: (numbers[2] == Some(true)).then(|| values::binary_time(headers, TIMESTAMP)).flatten(),
            ..ForeignOrigin::default()
        };
    }
    let told = Told {
        kind,
        message: values::text(headers, MESSAGE),
        cause: None,
        trace: values::text(headers, TRACE),
    };
    told.add_to(&mut failure);
    (failure.origin.name.is_some() || !failure.chain.is_empty()).then_some(failure)
}
