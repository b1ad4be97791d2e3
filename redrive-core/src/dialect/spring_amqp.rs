//! Spring AMQP's republishing recoverer: `x-exception-…`, `x-original-exchange`, `x-original-routingKey`.
//!
//! It names no error type; the first line of the stack trace does.

use super::chain::Told;
use super::{ForeignFailure, ForeignOrigin, Writer, values};
use crate::Headers;

const MESSAGE: &str = "x-exception-message";
const TRACE: &str = "x-exception-stacktrace";
const EXCHANGE: &str = "x-original-exchange";
const ROUTING_KEY: &str = "x-original-routingKey";

pub(super) fn owns(name: &str) -> bool {
    matches!(name, MESSAGE | TRACE | EXCHANGE | ROUTING_KEY)
}

pub(super) fn read(headers: &Headers) -> Option<ForeignFailure> {
    let mut failure = ForeignFailure::of(Writer::SpringAmqp);
    failure.origin = ForeignOrigin {
        exchange: values::place(headers, EXCHANGE),
        routing_key: values::place(headers, ROUTING_KEY),
        ..ForeignOrigin::default()
    };
    failure.attempts = values::count(headers, "retry-count").filter(|attempts| *attempts > 0);
    let told = Told {
        message: values::text(headers, MESSAGE),
        trace: values::text(headers, TRACE),
        ..Told::default()
    };
    told.add_to(&mut failure);
    let routed = failure.origin.exchange.is_some() || failure.origin.routing_key.is_some();
    (routed || !told.is_empty()).then_some(failure)
}
