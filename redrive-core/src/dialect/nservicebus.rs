//! NServiceBus: `NServiceBus.FailedQ`, `NServiceBus.TimeOfFailure`, `NServiceBus.ExceptionInfo.…`.

use super::chain::Told;
use super::{ForeignFailure, Writer, values};
use crate::headers::MAX_ID;
use crate::{Headers, Text};

const FAILED_QUEUE: &str = "NServiceBus.FailedQ";
const TIME: &str = "NServiceBus.TimeOfFailure";
const ERROR: &str = "NServiceBus.ExceptionInfo.";

pub(super) fn owns(name: &str) -> bool {
    matches!(name, FAILED_QUEUE | TIME) || name.starts_with(ERROR)
}

pub(super) fn read(headers: &Headers) -> Option<ForeignFailure> {
    let mut failure = ForeignFailure::of(Writer::NServiceBus);
    failure.origin.name = values::place(headers, FAILED_QUEUE);
    failure.failed_at = values::time(headers, TIME);
    let part = |name| values::id(headers, name);
    failure.component = match (part("NServiceBus.ProcessingEndpoint"), part("NServiceBus.ProcessingMachine"))
    {
        (Some(endpoint), Some(machine)) => Some(Text::from(format!("{endpoint} on {machine}")).cut(MAX_ID)),
        (endpoint, machine) => endpoint.or(machine),
    };
    // Several types, separated by semicolons, the most specific first; each may name its assembly.
    failure.message_type = values::text(headers, "NServiceBus.EnclosedMessageTypes")
        .and_then(|types| types.split([';', ',']).next())
        .and_then(|first| Text::from(first.trim()).into_id(MAX_ID));
    let told = Told {
        kind: values::text(headers, "NServiceBus.ExceptionInfo.ExceptionType"),
        message: values::text(headers, "NServiceBus.ExceptionInfo.Message"),
        cause: values::text(headers, "NServiceBus.ExceptionInfo.InnerExceptionType"),
        trace: values::text(headers, "NServiceBus.ExceptionInfo.StackTrace"),
    };
    told.add_to(&mut failure);
    (failure.origin.name.is_some() || !told.is_empty()).then_some(failure)
}
