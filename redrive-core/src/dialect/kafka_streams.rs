//! Kafka Streams from 4.2 on, with `errors.dead.letter.queue.topic.name`: `__streams.errors.…`, all text.

use super::chain::Told;
use super::{ForeignFailure, ForeignOrigin, Writer, values};
use crate::Headers;

const PREFIX: &str = "__streams.errors.";

pub(super) fn owns(name: &str) -> bool {
    name.starts_with(PREFIX)
}

pub(super) fn read(headers: &Headers) -> Option<ForeignFailure> {
    let mut failure = ForeignFailure::of(Writer::KafkaStreams);
    failure.origin = ForeignOrigin {
        name: values::place(headers, "__streams.errors.topic"),
        partition: values::partition(headers, "__streams.errors.partition"),
        offset: values::offset(headers, "__streams.errors.offset"),
        ..ForeignOrigin::default()
    };
    let told = Told {
        kind: values::text(headers, "__streams.errors.exception"),
        message: values::text(headers, "__streams.errors.message"),
        cause: None,
        trace: values::text(headers, "__streams.errors.stacktrace"),
    };
    told.add_to(&mut failure);
    (failure.origin.name.is_some() || !told.is_empty()).then_some(failure)
}
