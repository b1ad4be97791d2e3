//! One call of the handler, with its time and its panics bounded.

use redrive_core::{Failure, Message};

use crate::handler::{Attempted, Context, Handler, catch};

/// Calls the handler once. A call that takes too long is dropped, one that panics is caught: both are failures.
pub(crate) async fn attempt(handler: &dyn Handler, message: &Message, context: &Context) -> Attempted {
    let call = catch(handler.call(message, context));
    match tokio::time::timeout(context.timeout, call).await {
        Ok(attempted) => attempted,
        Err(_) => Attempted::failure(Failure::from_timeout(context.timeout)),
    }
}
