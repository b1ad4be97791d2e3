//! Wolverine: `exception-type`, `failed-at`, `original-destination`, …
//!
//! The names are ordinary words, so a single one proves nothing: an error and a second header of its own are asked for.

use super::chain::Told;
use super::{ForeignFailure, Writer, values};
use crate::Headers;

const KIND: &str = "exception-type";
const MESSAGE: &str = "exception-message";
const TRACE: &str = "exception-stack";
const FAILED_AT: &str = "failed-at";
const DESTINATION: &str = "original-destination";

pub(super) fn owns(name: &str) -> bool {
    matches!(name, KIND | MESSAGE | TRACE | FAILED_AT | DESTINATION)
}

pub(super) fn read(headers: &Headers) -> Option<ForeignFailure> {
    let mut failure = ForeignFailure::of(Writer::Wolverine);
    failure.failed_at = values::time(headers, FAILED_AT);
    failure.origin.name = values::address(headers, DESTINATION);
    failure.origin.partition = values::partition(headers, "original-partition");
    failure.origin.offset = values::offset(headers, "original-offset");
    failure.attempts = values::count(headers, "attempts").filter(|attempts| *attempts > 0);
    let told = Told {
        kind: Some(values::text(headers, KIND)?),
        message: values::text(headers, MESSAGE),
        cause: None,
        trace: values::text(headers, TRACE),
    };
    if failure.failed_at.is_none() && failure.origin.name.is_none() && told.trace.is_none() {
        return None;
    }
    told.add_to(&mut failure);
    Some(failure)
}
