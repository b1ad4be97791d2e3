//! One call of the handler, with its time and its panics bounded, and its outgoing calls counted.

use std::time::Duration;

use redrive_core::{Failure, Message};
use redrive_retry::CallBudget;
use tokio::time::Instant;

use crate::fail;
use crate::handler::{Attempted, Charge, Context, Handler, catch};

/// Calls the handler once. A call that takes too long is dropped, one that panics is caught: both are failures.
///
/// Every retryer that the handler uses takes from what is left of the message's calls and ends with the attempt, or
/// with the message's own deadline, so long from now, where that comes first. What was used is charged, however the
/// call ended.
pub(crate) async fn attempt(
    handler: &dyn Handler,
    message: &Message,
    context: &Context,
    deadline: Option<Duration>,
) -> Attempted {
    fail::point("engine.before_call");
    let time = deadline.map_or(context.timeout, |own| own.min(context.timeout));
    let budget = CallBudget::new(context.calls_left, Instant::now().checked_add(time));
    let call = budget.scope(catch(handler.call(message, context)));
    let mut attempted = match tokio::time::timeout(context.timeout, call).await {
        Ok(attempted) => attempted,
        Err(_) => Attempted::failure(Failure::from_timeout(context.timeout)),
    };
    // A handler that counts for itself may have counted these too, so the larger figure stands.
    attempted.charge.calls = attempted.charge.calls.max(budget.used().min(Charge::MAX));
    fail::point("engine.after_call");
    attempted
}
