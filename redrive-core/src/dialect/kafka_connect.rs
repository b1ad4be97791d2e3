//! Kafka Connect with `errors.deadletterqueue.context.headers.enable`: `__connect.errors.…`, all text.

use super::chain::Told;
use super::{ForeignFailure, ForeignOrigin, Writer, values};
use crate::headers::MAX_ID;
use crate::{Headers, Text};

const PREFIX: &str = "__connect.errors.";

pub(super) fn owns(name: &str) -> bool {
    name.starts_with(PREFIX)
}

pub(super) fn read(headers: &Headers) -> Option<ForeignFailure> {
    let mut failure = ForeignFailure::of(Writer::KafkaConnect);
    failure.origin = ForeignOrigin {
        name: values::place(headers, "__connect.errors.topic"),
        partition: values::partition(headers, "__connect.errors.partition"),
        offset: values::offset(headers, "__connect.errors.offset"),
        ..ForeignOrigin::default()
    };
    failure.component = component(headers);
    let told = Told {
        kind: values::text(headers, "__connect.errors.exception.class.name"),
        message: values::text(headers, "__connect.errors.exception.message"),
        cause: None,
        trace: values::text(headers, "__connect.errors.exception.stacktrace"),
    };
    told.add_to(&mut failure);
    (failure.origin.name.is_some() || failure.component.is_some() || !told.is_empty()).then_some(failure)
}

/// `orders-sink, task 0, VALUE_CONVERTER, org.apache.kafka.connect.json.JsonConverter`.
fn component(headers: &Headers) -> Option<Text> {
    let part = |name| values::id(headers, name).map(|text| text.as_str().to_owned());
    let task = part("__connect.errors.task.id").map(|task| format!("task {task}"));
    let parts: Vec<String> = [
        part("__connect.errors.connector.name"),
        task,
        part("__connect.errors.stage"),
        part("__connect.errors.class.name"),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| Text::from(parts.join(", ")).cut(MAX_ID))
}
