//! One call of the handler, with its time and its panics bounded.

use redrive_core::{Failure, Message};

use crate::fail;
use crate::handler::{Attempted, Context, Handler, catch};

/// Calls the handler once. A call that takes too long is dropped, one that panics is caught: both are failures.
pub(crate) async fn attempt(handler: &dyn Handler, message: &Message, context: &Context) -> Attempted {
    fail::point("engine.before_call");
    let call = catch(handler.call(message, context));
    let attempted = match tokio::time::timeout(context.timeout, call).await {
        Ok(attempted) => attempted,
        Err(_) => Attempted::failure(Failure::from_timeout(context.timeout)),
    };
    fail::point("engine.after_call");
    attempted
}
