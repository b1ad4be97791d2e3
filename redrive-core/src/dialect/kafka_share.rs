//! Kafka's share groups from 4.4 on: `__dlq.errors.…`, all text, by default without the record's body.

use super::chain::Told;
use super::{ForeignFailure, ForeignOrigin, Writer, values};
use crate::Headers;

const PREFIX: &str = "__dlq.errors.";

pub(super) fn owns(name: &str) -> bool {
    name.starts_with(PREFIX)
}

pub(super) fn read(headers: &Headers) -> Option<ForeignFailure> {
    let mut failure = ForeignFailure::of(Writer::KafkaShareGroup);
    failure.origin = ForeignOrigin {
        name: values::place(headers, "__dlq.errors.topic"),
        partition: values::partition(headers, "__dlq.errors.partition"),
        offset: values::offset(headers, "__dlq.errors.offset"),
        group: values::id(headers, "__dlq.errors.group"),
        ..ForeignOrigin::default()
    };
    failure.attempts = values::count(headers, "__dlq.errors.delivery.count");
    let told = Told { message: values::text(headers, "__dlq.errors.message"), ..Told::default() };
    told.add_to(&mut failure);
    (failure.origin.name.is_some() || !told.is_empty()).then_some(failure)
}
