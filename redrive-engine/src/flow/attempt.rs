//! One call of the handler, with its time and its panics bounded, and its outgoing calls counted.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use redrive_core::{Failure, Message};
use redrive_retry::CallBudget;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fail;
use crate::handler::{Attempted, Charge, Context, Handler, catch};

/// Calls the handler once. A call that takes too long is dropped, one that panics is caught: both are failures.
///
/// Every retryer that the handler uses takes from what is left of the message's calls and ends with the attempt, or
/// with the message's own deadline, so long from now, where that comes first. What was used is charged, however the
/// call ended.
///
/// Nothing when it was given up before it ended, because the flow stops.
pub(crate) async fn attempt(
    handler: &dyn Handler,
    message: &Message,
    context: Context,
    (began, deadline): (Instant, Option<Duration>),
    budget: &mut CallBudget,
    abort: &CancellationToken,
) -> Option<Attempted> {
    fail::point("engine.before_call");
    let timeout = context.timeout;
    let time = deadline.map_or(timeout, |own| own.min(timeout));
    budget.renew(context.calls_left, began.checked_add(time));
    let mut call = pin!(budget.scope(catch(handler.call(message, context))));
    // What is done at once needs no timer, and cannot be given up.
    let at_once = std::future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
    let mut attempted = match at_once {
        Poll::Ready(attempted) => attempted,
        Poll::Pending => {
            let until = began.checked_add(timeout);
            let too_late = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                attempted = call => attempted,
                () = abort.cancelled() => return None,
                () = too_late => Attempted::failure(Failure::from_timeout(timeout)),
            }
        }
    };
    // A handler that counts for itself may have counted these too, so the larger figure stands.
    attempted.charge.calls = attempted.charge.calls.max(budget.used().min(Charge::MAX));
    fail::point("engine.after_call");
    Some(attempted)
}
